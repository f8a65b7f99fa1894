"""What anybody may ask for without a token is worked out once a second at most, however many ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from headgate.errors import StorageDown

T = TypeVar("T")

FRESH_S = 1.0


class Remembered(Generic[T]):
    """The last result of `make`, or the StorageDown it raised; while one thread works it out, others get the last."""

    def __init__(self, make: Callable[[], T], *, fresh_s: float = FRESH_S) -> None:
        self._make = make
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._last: tuple[float, T | StorageDown] | None = None

    def get(self) -> T:
        last = self._last
        is_old = last is None or time.monotonic() - last[0] > self._fresh_s
        # Only the first of all has to wait for somebody else.
        if is_old and self._lock.acquire(blocking=last is None):
            try:
                last = self._renewed(last)
            finally:
                self._lock.release()
        assert last is not None, "the first who asks waits"
        if isinstance(last[1], StorageDown):
            raise StorageDown(str(last[1]))
        return last[1]

    def _renewed(self, seen: tuple[float, T | StorageDown] | None) -> tuple[float, T | StorageDown]:
        if self._last is not seen and self._last is not None:
            return self._last
        found: T | StorageDown
        try:
            found = self._make()
        except StorageDown as error:
            found = error
        self._last = (time.monotonic(), found)
        return self._last
