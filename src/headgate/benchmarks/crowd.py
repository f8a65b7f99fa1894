"""A crowd of nodes in a few processes, all following one control plane."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headgate.benchmarks.children import BenchError, Child, child, cpu_s, memory_mb, module

PROCESSES = 4
START_S_MAX = 120.0
_SPARE_S = 10.0


class Crowd:
    """`count` nodes; `reached` tells when the last of them enforced a version."""

    def __init__(self, children: Sequence[Child], count: int, log: Path) -> None:
        self._children = children
        self.count = count
        self._log = log

    def reached_ns(self, versions: Sequence[int], timeout_s: float) -> list[int]:
        """On the monotonic clock, for each version. Raises BenchError when not all have the last within that time."""
        answers = self._ask({"reached": list(versions), "timeout_s": timeout_s}, timeout_s + _SPARE_S)
        if behind := sum(answer.get("behind", 0) for answer in answers):
            words = "; ".join(error for answer in answers for error in answer.get("errors", ()))
            raise BenchError(f"{behind} of {self.count} nodes did not get a change within {timeout_s:g} s ({words})")
        return [max(times) for times in zip(*(answer["last_ns"] for answer in answers), strict=True)]

    def refusing(self, ip: str) -> int:
        """How many nodes refuse a request from this address."""
        return sum(answer["refusing"] for answer in self._ask({"refused": ip}, _SPARE_S))

    def checks(self, seconds: float) -> dict[str, Any]:
        """How long checks of the first node take: `p50_us`, `p99_us`, `p999_us`."""
        return self._ask({"checks_s": seconds}, seconds + _SPARE_S, of=1)[0]

    def memory_mb(self) -> list[float]:
        """The most each process ever had."""
        return [found for process in self._children if (found := memory_mb(process.pid)) is not None]

    def cpu_s(self) -> float:
        return sum(cpu_s(process.pid) for process in self._children)

    def read(self, timeout_s: float, of: int | None = None) -> list[dict[str, Any]]:
        """One answer of each process, or of the first so many."""
        end_s = time.monotonic() + timeout_s
        return [self._line(process, end_s - time.monotonic()) for process in self._children[:of]]

    def _ask(self, question: dict[str, Any], timeout_s: float, of: int | None = None) -> list[dict[str, Any]]:
        raw = json.dumps(question).encode() + b"\n"
        for process in self._children[:of]:
            assert process.stdin is not None
            process.stdin.write(raw)
            process.stdin.flush()
        return self.read(timeout_s, of)

    def _line(self, process: Child, timeout_s: float) -> dict[str, Any]:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, timeout_s))
        line = process.stdout.readline() if ready else b""
        if not line:
            why = "took too long" if not ready else self._log.read_text(errors="replace")[-2000:]
            raise BenchError(f"a process with nodes did not answer: {why}")
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def crowd(urls: str, key: bytes, count: int, folder: Path, *, processes: int = PROCESSES) -> Iterator[Crowd]:
    """All of them have rules when the block is entered."""
    log = folder / "nodes.log"
    shares = _shares(count, min(processes, count))
    with contextlib.ExitStack() as open_:
        children = []
        first = 0
        for share in shares:
            command = module("headgate.benchmarks.crowd_child")
            process = open_.enter_context(child(command, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            children.append(process)
            said = {"urls": urls, "key": key.decode(), "first": first, "count": share}
            assert process.stdin is not None
            process.stdin.write(json.dumps(said).encode() + b"\n")
            process.stdin.flush()
            first += share
        made = Crowd(children, count, log)
        made.read(START_S_MAX)
        yield made


def _shares(count: int, processes: int) -> list[int]:
    return [count // processes + (nth < count % processes) for nth in range(processes)]
