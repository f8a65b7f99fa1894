"""So many retries and no more: a server in trouble is not asked ever harder by those it refuses."""

from __future__ import annotations

from headgate.client.options import RetryOptions


class RetryBudget:
    """A bucket of retries. Requests and time fill it, retries empty it. Starts full."""

    def __init__(self, options: RetryOptions) -> None:
        self._options = options
        self._saved = options.budget_max
        self._now_s: float | None = None

    def earn(self, now_s: float) -> None:
        """A request is sent for the first time."""
        self._pass_time(now_s)
        self._saved = min(self._options.budget_max, self._saved + self._options.budget_part)

    def spend(self, now_s: float) -> bool:
        """Whether there is a retry left; takes it."""
        self._pass_time(now_s)
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True

    def _pass_time(self, now_s: float) -> None:
        if self._now_s is not None and now_s > self._now_s:
            earned = (now_s - self._now_s) * self._options.budget_per_s
            self._saved = min(self._options.budget_max, self._saved + earned)
        self._now_s = now_s if self._now_s is None else max(self._now_s, now_s)
