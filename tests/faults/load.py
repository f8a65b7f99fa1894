"""Checks that go on while a store fails, from threads and from an event loop, and what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import TracebackType
from typing import Self

from headgate import Limiter
from headgate._core import Decision
from tests.servers.waiting import wait_for

DEADLINE_S = 0.005
# What may be asserted about time on a machine that does other things as well.
DEADLINE_MARGIN = 20
THREADS = 2
TASKS = 4
PAUSE_S = 0.003
WITNESS_S = 0.002
STALL_MIN_S = 0.01
WARM_UP_TIMEOUT_S = 20
JOIN_TIMEOUT_S = 30

CALM = tuple(f"calm-{number}" for number in range(20))
"""Subjects that never come near their limit: whoever refuses them admits too little."""
CALM_LIMIT = 1_000_000
BUSY = "busy"
"""A subject that asks for far more than it may have: whoever admits more than `BUSY_LIMIT` admits too much."""
BUSY_LIMIT = 100
WINDOW_S = 3_600
CALM_PER_BUSY = 3


@dataclass(frozen=True)
class Sample:
    subject: str
    start_s: float
    took_s: float
    allowed: bool
    path: str
    degraded: bool
    status: int
    retry_after_s: float | None

    @property
    def is_by_store(self) -> bool:
        return self.path == "store" and not self.degraded


class Load:
    """Use as a context manager: it runs inside. `fault_s`, `broken_s` and `healed_s` part its samples.

    Beside it a witness sleeps and notes when it was woken late: then the machine held up the whole process, and no
    check is to blame. That a check which waits does not hold up the process itself is a test of its own.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        subjects: Sequence[str] = CALM,
        busy: str | None = BUSY,
        threads: int = THREADS,
        tasks: int = TASKS,
        pause_s: float = PAUSE_S,
        is_store_up: bool = True,
    ) -> None:
        self.limiter = limiter
        self.samples: list[Sample] = []
        self.errors: list[BaseException] = []
        self.stalls: list[tuple[float, float]] = []
        self.fault_s = float("inf")
        self.broken_s = float("inf")
        self.healed_s = float("inf")
        self._subjects = subjects
        self._busy = busy
        self._pause_s = pause_s
        self._is_store_up = is_store_up
        self._stopping = threading.Event()
        work: list[Callable[[int], None]] = [self._witness, *[self._run_thread] * threads]
        work += [lambda number: asyncio.run(self._run_tasks(number, tasks))] if tasks else []
        self._threads = [
            threading.Thread(target=self._guarded, args=(run, number), daemon=True) for number, run in enumerate(work)
        ]

    def __enter__(self) -> Self:
        if self._is_store_up:
            warm_up(self.limiter, self._subjects)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
            assert not thread.is_alive(), "a check never came back"

    def run_for(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextlib.contextmanager
    def breaking(self) -> Iterator[None]:
        """Around whatever breaks the store: the fault begins before it, and is complete after it."""
        self.fault_s = time.monotonic()
        yield
        self.broken_s = time.monotonic()

    def fault_ends(self) -> None:
        self.healed_s = time.monotonic()

    def wait_recovered(self, since_s: float, subjects: Sequence[str], timeout_s: float) -> float:
        """Seconds from `since_s` until the store had answered for each of the subjects."""
        wanted = set(subjects)

        def answered() -> list[float]:
            first: dict[str, float] = {}
            for sample in self.samples.copy():
                if sample.start_s >= since_s and sample.is_by_store and sample.subject in wanted:
                    first.setdefault(sample.subject, sample.start_s + sample.took_s)
            return list(first.values()) if len(first) == len(wanted) else []

        answers_s = wait_for("the store decides again", answered, timeout_s, self.limiter.store_status)
        return max(answers_s) - since_s

    def _guarded(self, run: Callable[[int], None], number: int) -> None:
        try:
            run(number)
        except BaseException as error:
            self.errors.append(error)
            raise

    def blamed_s(self, sample: Sample) -> float:
        """How long it took, less what the machine took."""
        end_s = sample.start_s + sample.took_s
        overlaps_s = (min(end_s, until_s) - max(sample.start_s, from_s) for from_s, until_s in self.stalls)
        return sample.took_s - sum(overlap_s for overlap_s in overlaps_s if overlap_s > 0)

    def _witness(self, _: int) -> None:
        while not self._stopping.is_set():
            start_s = time.monotonic()
            time.sleep(WITNESS_S)
            end_s = time.monotonic()
            if end_s - start_s > WITNESS_S + STALL_MIN_S:
                self.stalls.append((start_s, end_s))

    def _questions(self, number: int) -> Iterator[tuple[str, int]]:
        subjects = cycle([*self._subjects[number:], *self._subjects[:number]])
        while not self._stopping.is_set():
            for _ in range(CALM_PER_BUSY):
                yield next(subjects), CALM_LIMIT
            if self._busy is not None:
                yield self._busy, BUSY_LIMIT

    def _run_thread(self, number: int) -> None:
        for subject, limit in self._questions(number):
            start_s = time.monotonic()
            decision = self.limiter.check_limit(subject, limit, WINDOW_S)
            self._note(subject, start_s, decision)
            time.sleep(self._pause_s)

    async def _run_tasks(self, number: int, tasks: int) -> None:
        async def run(task: int) -> None:
            for subject, limit in self._questions(number + task):
                start_s = time.monotonic()
                decision = await self.limiter.acheck_limit(subject, limit, WINDOW_S)
                self._note(subject, start_s, decision)
                await asyncio.sleep(self._pause_s)

        await asyncio.gather(*map(run, range(tasks)))

    def _note(self, subject: str, start_s: float, decision: Decision) -> None:
        took_s = time.monotonic() - start_s
        self.samples.append(
            Sample(
                subject,
                start_s,
                took_s,
                decision.allowed,
                decision.path,
                decision.degraded,
                decision.status,
                decision.retry_after,
            )
        )


def warm_up(limiter: Limiter, subjects: Sequence[str] = CALM) -> None:
    """Until the store has answered for every subject once: connections are made with the first check, not before."""
    unheard = set(subjects)

    def hear() -> bool:
        answered = {subject for subject in unheard if limiter.peek_limit(subject, CALM_LIMIT, WINDOW_S).path == "store"}
        unheard.difference_update(answered)
        return not unheard

    wait_for("the store answers for all subjects", hear, WARM_UP_TIMEOUT_S, limiter.store_status)
