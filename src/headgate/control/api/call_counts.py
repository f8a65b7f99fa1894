"""How many calls there were, by route and status: what `/metrics` tells of the API itself."""

from __future__ import annotations

import threading
from collections import defaultdict


class CallCounts:
    """Bounded by the routes there are: what no route answers is counted together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self.storage_errors = 0

    def count(self, route: str, method: str, status: int, took_s: float) -> None:
        method = method if method in _METHODS else "OTHER"
        with self._lock:
            self._calls[route, method, status] += 1
            self._seconds[route] += took_s

    def count_storage_error(self) -> None:
        with self._lock:
            self.storage_errors += 1

    def read(self) -> tuple[dict[tuple[str, str, int], int], dict[str, float]]:
        with self._lock:
            return dict(self._calls), dict(self._seconds)


_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
