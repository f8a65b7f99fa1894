"""Many callers at one counter: what each of them was told."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from headgate import Limiter
from headgate._core import Decision
from tests.conformance.stores import PATIENT_S
from tests.model.limits import ALGORITHMS

# So long that no window ends and no token comes back while a test runs.
WINDOW = "365 days"
PROCESSES = 8
PROCESS_TIMEOUT_S = 60

Told = Counter[tuple[str, bool]]
"""How often each (path, allowed) was answered."""

_limiter: Limiter
_start: Any


@dataclass(frozen=True)
class Load:
    key: str
    limit: int
    algorithm: str
    checks: int
    """By each caller."""

    def ask(self, limiter: Limiter) -> Decision:
        return limiter.check_limit(self.key, self.limit, WINDOW, algorithm=self.algorithm)

    async def aask(self, limiter: Limiter) -> Decision:
        return await limiter.acheck_limit(self.key, self.limit, WINDOW, algorithm=self.algorithm)


def load(algorithm: str, limit: int, callers: int, excess: float = 1.5) -> Load:
    """More than fits, however it is divided."""
    return Load(f"hammered by {callers} {algorithm}", limit, algorithm, int(limit * excess / callers) + 1)


def loads(limit: int, callers: int) -> list[Load]:
    return [load(algorithm, limit, callers) for algorithm in ALGORITHMS]


def count(decisions: Iterable[Decision]) -> Told:
    return Counter((decision.path, decision.allowed) for decision in decisions)


def by_threads(limiter: Limiter, work: Load, threads: int) -> Told:
    together = threading.Barrier(threads)

    def one() -> list[Decision]:
        together.wait(PROCESS_TIMEOUT_S)
        return [work.ask(limiter) for _ in range(work.checks)]

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(one) for _ in range(threads)]
        return count(decision for future in futures for decision in future.result(PROCESS_TIMEOUT_S))


async def by_tasks(limiter: Limiter, work: Load, tasks: int) -> Told:
    async def one() -> list[Decision]:
        return [await work.aask(limiter) for _ in range(work.checks)]

    done = await asyncio.gather(*(one() for _ in range(tasks)))
    return count(decision for decisions in done for decision in decisions)


def by_both(limiter: Limiter, work: Load, callers: int) -> Told:
    """Half of them threads, half of them tasks of an event loop."""
    threads = callers // 2
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(by_threads, limiter, work, threads)
        told = asyncio.run(by_tasks(limiter, work, callers - threads))
        return told + future.result(PROCESS_TIMEOUT_S)


class Processes:
    """Fresh interpreters, each with a limiter of its own."""

    def __init__(self, url: str) -> None:
        context = multiprocessing.get_context("spawn")
        together = context.Barrier(PROCESSES)
        self._pool = context.Pool(PROCESSES, _open_limiter, (url, together))

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()
        self._pool.join()

    def hammer(self, work: Load) -> Told:
        answers = self._pool.map_async(_ask_all, [work] * PROCESSES, chunksize=1).get(PROCESS_TIMEOUT_S)
        return sum(answers, Counter())


def _open_limiter(url: str, start: Any) -> None:
    global _limiter, _start
    _limiter = Limiter(store=url, store_deadline=PATIENT_S)
    _start = start


def _ask_all(work: Load) -> Told:
    # Nobody starts early, and nobody who is done takes another's turn.
    _start.wait(PROCESS_TIMEOUT_S)
    return count(work.ask(_limiter) for _ in range(work.checks))
