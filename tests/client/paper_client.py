"""A client without a network: time is a number that moves only when a request waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.client import RetryOptions, RetryReport
from headgate.client.conduct import Conduct, Trip

WALL_S = 1_700_000_000.0
REFUSED = {"retry-after": "2"}


class PaperClient:
    """A conduct and a clock that moves only when a request waits."""

    def __init__(self, *, draw: float = 0.0, **options: Any) -> None:
        self.now_s = 1_000.0
        self.conduct = Conduct(RetryOptions(**options), lambda: draw)

    def begin(
        self,
        path: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        *,
        host: str = "api.test",
        can_replay: bool = True,
    ) -> Trip:
        return self.conduct.begin(method, ("https", host, 443), path, headers or {}, can_replay=can_replay)

    def wait_out(self, trip: Trip) -> float:
        began_s = self.now_s
        while (wait_s := trip.wait_s(self.now_s)) > 0:
            self.now_s += wait_s
        return self.now_s - began_s

    def answer(self, trip: Trip, status: int = 200, headers: Mapping[str, str] | None = None) -> bool:
        return trip.must_repeat(status, headers or {}, self.now_s, WALL_S)

    def ask(self, path: str = "/", status: int = 200, headers: Mapping[str, str] | None = None, **how: Any) -> float:
        """One request with one answer, whatever it says; gives how long it was held back."""
        with self.begin(path, **how) as trip:
            held_s = self.wait_out(trip)
            self.answer(trip, status, headers)
            return held_s

    def until_handed_over(self, status: int = 429, headers: Mapping[str, str] | None = None, **how: Any) -> RetryReport:
        """A server that always answers the same."""
        with self.begin(**how) as trip:
            while True:
                self.wait_out(trip)
                if not self.answer(trip, status, headers):
                    return trip.report()
