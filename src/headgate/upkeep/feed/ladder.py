"""Which source is followed: the first of the ladder that is of use, and when the others are tried again. No clock, no
I/O: both are the caller's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")

RETRY_FIRST_S = 0.5
RETRY_MOST_S = 30.0
# Part of a wait that is left to chance, so that nodes that lost a source together do not come back together.
JITTER = 0.25
# A failure this long after the last one starts the waits afresh.
FORGIVEN_AFTER_S = 120.0


@dataclass(slots=True)
class Rung(Generic[S]):
    """One source and how it did. `error` is None while it is of use, or was never tried."""

    source: S
    error: str | None = None
    # It answers, but has nothing fresh: others go first while they answer.
    is_stale: bool = False
    failures: int = 0
    failed_s: float = 0.0
    retry_s: float = 0.0


class Ladder(Generic[S]):
    """Shared by the thread that reads, the one that keeps watch and the one that tries sources again."""

    def __init__(self, sources: Sequence[S], chance: Callable[[], float] = random.random) -> None:
        if not sources:
            raise ValueError("a ladder needs at least one source")
        self._rungs = [Rung(source) for source in sources]
        self._chance = chance
        self._lock = threading.Lock()

    def pick(self, now_s: float) -> S | None:
        """The source to use now; None while all are to be left alone for a moment."""
        with self._lock:
            useful = [rung for rung in self._rungs if rung.error is None]
            if useful:
                return min(useful, key=lambda rung: rung.is_stale).source
            due = [rung for rung in self._rungs if rung.retry_s <= now_s]
            return due[0].source if due else None

    def wait_s(self, now_s: float) -> float:
        """Until `pick` gives one."""
        with self._lock:
            if any(rung.error is None for rung in self._rungs):
                return 0.0
            return max(0.0, min(rung.retry_s for rung in self._rungs) - now_s)

    def to_probe(self, now_s: float) -> list[S]:
        """Those that failed and may be tried again, while others are of use: whoever follows one of these must not be
        kept from it by a try."""
        with self._lock:
            if all(rung.error is not None for rung in self._rungs):
                return []
            return [rung.source for rung in self._rungs if rung.error is not None and rung.retry_s <= now_s]

    def stale(self) -> list[S]:
        with self._lock:
            return [rung.source for rung in self._rungs if rung.is_stale]

    def is_best(self, source: S) -> bool:
        """Whether there is none one would rather have."""
        with self._lock:
            rung = self._rungs[0]
            return rung.source is source and not rung.is_stale

    def answers(self, source: S) -> None:
        """It may be followed; that it failed is remembered until it has gone well for a while."""
        with self._lock:
            rung = self._of(source)
            rung.error = None

    def failed(self, source: S, error: str, now_s: float) -> bool:
        """Whether that is news."""
        with self._lock:
            rung = self._of(source)
            is_news = rung.error is None
            if now_s - rung.failed_s > FORGIVEN_AFTER_S:
                rung.failures = 0
            wait_s = min(RETRY_MOST_S, RETRY_FIRST_S * 2.0 ** min(rung.failures, 16))
            rung.failures += 1
            rung.failed_s = now_s
            rung.retry_s = now_s + wait_s * (1 + JITTER * self._chance())
            rung.error = error
            return is_news

    def set_stale(self, source: S, is_stale: bool) -> None:
        with self._lock:
            self._of(source).is_stale = is_stale

    def all_failed(self) -> dict[S, str] | None:
        """What each says, once all were tried and failed."""
        with self._lock:
            if any(rung.error is None for rung in self._rungs):
                return None
            return {rung.source: rung.error or "" for rung in self._rungs}

    def errors(self) -> list[tuple[S, str | None]]:
        with self._lock:
            return [(rung.source, rung.error) for rung in self._rungs]

    def _of(self, source: S) -> Rung[S]:
        return next(rung for rung in self._rungs if rung.source is source)
