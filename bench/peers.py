"""One face for Headgate and its peers: each admits everything, or refuses everything but a key's first hit.

Every contestant has its own loop in its own most direct spelling, so that no adapter is timed with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from time import perf_counter_ns

import throttled
from limits import RateLimitItemPerDay
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from headgate import Limiter

# A day, so that no window ends while a benchmark runs (at midnight UTC one does, and `admits` shows it).
WINDOW_S = 86_400
ADMIT_ALL = 1_000_000_000
REFUSE_ALL = 1


class Contestant(ABC):
    name: str

    @abstractmethod
    def run(self, keys: Iterable[str]) -> int:
        """Hit every key once; nanoseconds for all."""

    @abstractmethod
    def admits(self, key: str) -> bool: ...

    def settle(self) -> None:  # noqa: B027 - most have nothing to wait for
        """Wait for background work that would slow down whoever is measured next."""


class HeadgateLimit(Contestant):
    def __init__(self, limit: int, max_keys: int = 2_000_000, algorithm: str | None = None) -> None:
        self.name = f"headgate {algorithm or 'default'}"
        self._limit = limit
        self._algorithm = algorithm
        self._limiter = Limiter(max_keys=max_keys)

    def run(self, keys: Iterable[str]) -> int:
        check_limit, limit, algorithm = self._limiter.check_limit, self._limit, self._algorithm
        if algorithm is None:
            start = perf_counter_ns()
            for key in keys:
                check_limit(key, limit, WINDOW_S)
            return perf_counter_ns() - start
        start = perf_counter_ns()
        for key in keys:
            check_limit(key, limit, WINDOW_S, 1, algorithm)
        return perf_counter_ns() - start

    def admits(self, key: str) -> bool:
        return self._limiter.check_limit(key, self._limit, WINDOW_S, algorithm=self._algorithm).allowed


class LimitsFixedWindow(Contestant):
    """`limits`: the fixed window, its fastest strategy, in memory."""

    name = "limits fixed_window"

    def __init__(self, limit: int) -> None:
        self._storage = MemoryStorage()
        self._strategy = FixedWindowRateLimiter(self._storage)
        self._item = RateLimitItemPerDay(limit)

    def run(self, keys: Iterable[str]) -> int:
        hit, item = self._strategy.hit, self._item
        start = perf_counter_ns()
        for key in keys:
            hit(item, key)
        return perf_counter_ns() - start

    def admits(self, key: str) -> bool:
        return self._strategy.hit(self._item, key)

    def settle(self) -> None:
        # Its expiry thread walks all keys after the last hit; nobody else must share the GIL with it.
        self._storage.timer.join()


class ThrottledGcra(Contestant):
    """`throttled-py`: GCRA, its fastest algorithm, in memory, with room for all keys."""

    name = "throttled-py gcra"

    def __init__(self, limit: int, max_keys: int = 2_000_000) -> None:
        self._throttled = throttled.Throttled(
            using=throttled.RateLimiterType.GCRA.value,
            quota=throttled.rate_limiter.per_day(limit),
            store=throttled.MemoryStore(options={"MAX_SIZE": max_keys}),
        )

    def run(self, keys: Iterable[str]) -> int:
        limit = self._throttled.limit
        start = perf_counter_ns()
        for key in keys:
            limit(key)
        return perf_counter_ns() - start

    def admits(self, key: str) -> bool:
        return not self._throttled.limit(key).limited
