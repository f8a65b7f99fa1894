"""`headgate bench propagation`: from a change to its enforcement at the last of many nodes."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.benchmarks.broker import broker
from headgate.benchmarks.children import BenchError
from headgate.benchmarks.crowd import Crowd, crowd
from headgate.benchmarks.plane import Api, control_plane
from headgate.benchmarks.spread import spread

ARRIVAL_S_MAX = 30.0
# What comes closer together than 0.1 s is told together: a single change is one that nothing came just before.
PAUSE_S = (0.15, 0.35)
SETTLE_S = 1.0
WARM_UP = 5

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the measurements with many nodes are made on. Without URLs, servers of its own are started."""

    nodes: int
    feed: str = "redis"
    broker: str | None = None
    database: str | None = None


def propagation(fleet: Fleet, changes: int, progress: Progress = lambda _: None) -> dict[str, Any]:
    """One change at a time, rules and blocks in turn. The clock of each starts just before `POST /api/v1/blocks` or
    `PUT /api/v1/rules/NAME` is sent and stops when the last node has put it into force."""
    with contextlib.ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="hg-bench-")))
        url = open_.enter_context(broker(fleet.broker, folder)) if fleet.feed == "redis" else None
        plane = open_.enter_context(control_plane(folder, database=fleet.database, broker=url))
        api = open_.enter_context(contextlib.closing(Api(plane)))
        api.put_rule(rule(0, 1))
        nodes = open_.enter_context(crowd(url or plane.url, plane.feed_key, fleet.nodes, folder))
        time.sleep(SETTLE_S)
        for number in range(WARM_UP):
            _one(api, nodes, number)
        samples = []
        for number in range(WARM_UP, WARM_UP + changes):
            samples.append(_one(api, nodes, number))
            progress(len(samples))
        _check_enforced(api, nodes)
        return {
            "nodes": fleet.nodes,
            "changes": changes,
            "feed": fleet.feed,
            "database": "sqlite" if fleet.database is None else fleet.database.partition(":")[0],
            **spread([sample.enforced_ms for sample in samples]),
            **spread([sample.enforced_ms for sample in samples if sample.is_block], "block_"),
            **spread([sample.enforced_ms for sample in samples if not sample.is_block], "rule_"),
            # Of that, until the control plane had answered, which it does once the change is committed.
            **spread([sample.answered_ms for sample in samples], "answered_"),
        }


def rule(number: int, limit: int) -> dict[str, Any]:
    return {"name": f"bench-{number}", "match": {"user": f"u{number}"}, "by": "user", "limit": f"{limit}/minute"}


@dataclass(frozen=True, slots=True)
class _Sample:
    is_block: bool
    answered_ms: float
    enforced_ms: float


def _one(api: Api, nodes: Crowd, number: int) -> _Sample:
    time.sleep(random.uniform(*PAUSE_S))
    is_block = number % 2 == 1
    start_ns = time.monotonic_ns()
    answer = api.add_block(_address(number)) if is_block else api.put_rule(rule(number, 10))
    answered_ns = time.monotonic_ns()
    (last_ns,) = nodes.reached_ns([answer.version], ARRIVAL_S_MAX)
    return _Sample(is_block, (answered_ns - start_ns) / 1e6, (last_ns - start_ns) / 1e6)


def _check_enforced(api: Api, nodes: Crowd) -> None:
    """A figure of changes that arrive and are not enforced would be worth nothing."""
    ip = "203.0.113.254"
    before = nodes.refusing(ip)
    nodes.reached_ns([api.add_block(ip).version], ARRIVAL_S_MAX)
    if before or nodes.refusing(ip) != nodes.count:
        raise BenchError(f"of {nodes.count} nodes {before} refused before a block and {nodes.refusing(ip)} after it")


def _address(number: int) -> str:
    return f"198.18.{number // 256 % 256}.{number % 256}"
