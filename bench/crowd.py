"""Many tasks of one event loop that take requests from one pile."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from time import perf_counter_ns
from typing import Any

# One task's work: it takes subjects until there are none left, in its contestant's own most direct spelling.
Work = Callable[[Iterator[str]], Coroutine[Any, Any, None]]


class Crowd:
    """Its runner is kept by the caller, so that connections live through all rounds."""

    def __init__(self, runner: asyncio.Runner, tasks: int) -> None:
        self._runner = runner
        self._tasks = tasks

    def play(self, work: Work, subjects: Sequence[str]) -> int:
        """Nanoseconds for all."""
        return self._runner.run(self._all(work, subjects))

    def contestant(self, work: Work, subjects: Sequence[str]) -> Callable[[], float]:
        """Nanoseconds a request."""
        return lambda: self.play(work, subjects) / len(subjects)

    async def _all(self, work: Work, subjects: Sequence[str]) -> int:
        pile = iter(subjects)
        start = perf_counter_ns()
        await asyncio.gather(*(work(pile) for _ in range(self._tasks)))
        return perf_counter_ns() - start
