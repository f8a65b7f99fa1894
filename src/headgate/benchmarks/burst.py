"""`headgate bench burst`: a hundred thousand changes in a minute, and what emergency blocks, the nodes and their checks
make of it."""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headgate.benchmarks.broker import broker
from headgate.benchmarks.children import cpu_s, memory_mb
from headgate.benchmarks.crowd import Crowd, crowd
from headgate.benchmarks.plane import Api, Plane, control_plane
from headgate.benchmarks.propagation import ARRIVAL_S_MAX, Fleet, Progress, rule
from headgate.benchmarks.spread import spread

# As many rules as there are, changed again and again: 100 nodes with all rules of a burst would not fit on a laptop.
RULES = 10_000
A_REQUEST = 100
# As many different ones as a service has plans.
LIMITS = 50
BLOCK_EVERY_S = 1.0
CONVERGED_S_MAX = 120.0
CHECK_ROUNDS = 3
CHECK_ROUND_S = 4.0

_requests = itertools.count()


@dataclass(frozen=True, slots=True)
class Load:
    """So many changes, evenly over so many seconds; none is waited for unless the control plane is slower."""

    changes: int
    seconds: float

    def part(self, seconds: float) -> Load:
        return Load(max(A_REQUEST, round(self.changes * seconds / self.seconds)), seconds)


@dataclass(slots=True)
class Sent:
    """What became of it. `blocks` are versions with the times just before they were sent."""

    changes: int = 0
    seconds: float = 0.0
    version: int = 0
    end_ns: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)
    answered_ms: list[float] = field(default_factory=list)


def burst(fleet: Fleet, load: Load, progress: Progress = lambda _: None) -> dict[str, Any]:
    with contextlib.ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="hg-bench-")))
        url = open_.enter_context(broker(fleet.broker, folder)) if fleet.feed == "redis" else None
        plane = open_.enter_context(control_plane(folder, database=fleet.database, broker=url))
        urls = url or plane.url
        _fill(plane)
        # On their own: with all nodes on one machine, its cores would be what is measured.
        with crowd(urls, plane.feed_key, 1, folder) as lone:
            checks = _checks(plane, lone, load)
        with crowd(urls, plane.feed_key, fleet.nodes, folder) as nodes:
            before_s = cpu_s(plane.pid), nodes.cpu_s()
            sent = _send(plane, load, progress)
            (converged_ns,) = nodes.reached_ns([sent.version], CONVERGED_S_MAX)
            blocks_ms = _blocks_ms(nodes, sent)
            memory = nodes.memory_mb()
            used_s = cpu_s(plane.pid) - before_s[0], nodes.cpu_s() - before_s[1]
        return {
            "nodes": fleet.nodes,
            "changes": sent.changes,
            "seconds": round(sent.seconds, 1),
            "changes_per_s": round(sent.changes / sent.seconds),
            "feed": fleet.feed,
            "database": "sqlite" if fleet.database is None else fleet.database.partition(":")[0],
            "blocks": len(blocks_ms),
            **spread(blocks_ms, "block_"),
            "converged_ms": round(max(0, converged_ns - sent.end_ns) / 1e6, 1),
            **spread(sent.answered_ms, "request_"),
            **checks,
            "control_cpu_s": round(used_s[0], 1),
            "nodes_cpu_s": round(used_s[1], 1),
            "control_peak_mb": memory_mb(plane.pid),
            "nodes_peak_mb": round(sum(memory), 1),
            "node_peak_mb": round(sum(memory) / fleet.nodes, 2),
        }


def _fill(plane: Plane) -> None:
    with contextlib.closing(Api(plane)) as api:
        for first in range(0, RULES, 1000):
            _apply(api, first, 1000, 1)


def _apply(api: Api, first: int, count: int, limit: int) -> int:
    rules = [rule(number % RULES, limit) for number in range(first, first + count)]
    return api.change("POST", "/api/v1/apply", json.dumps({"rules": rules}).encode()).version


def _apply_next(api: Api) -> int:
    """Through all rules, again and again, with another limit each time: what changes nothing would be no change."""
    first = next(_requests) * A_REQUEST
    return _apply(api, first % RULES, A_REQUEST, 10 + first // RULES % LIMITS)


def _checks(plane: Plane, lone: Crowd, load: Load) -> dict[str, Any]:
    """A node's checks without and with the burst, by turns."""
    quiet, busy = [], []
    for _ in range(CHECK_ROUNDS):
        quiet.append(lone.checks(CHECK_ROUND_S))
        sender = threading.Thread(target=_send, args=(plane, load.part(CHECK_ROUND_S + 1.0)), daemon=True)
        sender.start()
        time.sleep(0.5)
        busy.append(lone.checks(CHECK_ROUND_S))
        sender.join()
    quiet_us = statistics.median(found["p99_us"] for found in quiet)
    busy_us = statistics.median(found["p99_us"] for found in busy)
    return {
        "checks_quiet_p99_us": quiet_us,
        "checks_burst_p99_us": busy_us,
        "checks_p99_ratio": round(busy_us / quiet_us, 2),
        "checks_quiet_p999_us": statistics.median(found["p999_us"] for found in quiet),
        "checks_burst_p999_us": statistics.median(found["p999_us"] for found in busy),
    }


def _send(plane: Plane, load: Load, progress: Progress = lambda _: None) -> Sent:
    """The changes, in requests of `A_REQUEST`, and beside them an emergency block every second."""
    sent = Sent()
    over = threading.Event()
    blocker = threading.Thread(target=_block, args=(plane, over, sent), daemon=True)
    blocker.start()
    every_s = load.seconds * A_REQUEST / load.changes
    with contextlib.closing(Api(plane)) as api:
        start_s = time.monotonic()
        for number in range(max(1, load.changes // A_REQUEST)):
            time.sleep(max(0.0, start_s + number * every_s - time.monotonic()))
            asked_s = time.monotonic()
            sent.version = _apply_next(api)
            sent.answered_ms.append((time.monotonic() - asked_s) * 1000)
            sent.changes += A_REQUEST
            progress(sent.changes)
        sent.end_ns = time.monotonic_ns()
        sent.seconds = time.monotonic() - start_s
    over.set()
    blocker.join()
    sent.version = max([sent.version, *(version for version, _ in sent.blocks)])
    return sent


def _block(plane: Plane, over: threading.Event, sent: Sent) -> None:
    with contextlib.closing(Api(plane)) as api:
        while not over.wait(BLOCK_EVERY_S):
            number = len(sent.blocks)
            start_ns = time.monotonic_ns()
            version = api.add_block(f"198.19.{number // 256 % 256}.{number % 256}").version
            sent.blocks.append((version, start_ns))


def _blocks_ms(nodes: Crowd, sent: Sent) -> list[float]:
    if not sent.blocks:
        return []
    arrived_ns = nodes.reached_ns([version for version, _ in sent.blocks], ARRIVAL_S_MAX)
    return [(there - start_ns) / 1e6 for there, (_, start_ns) in zip(arrived_ns, sent.blocks, strict=True)]
