"""What a server last said of one of its policies, and when the next request fits in."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field

from headgate.client.answer import WINDOW_S_MIN, Policy

# When an answer says what is left and not until when.
MORE_IN_UNKNOWN_S = 1.0


@dataclass(slots=True)
class Allowance:
    """Times are of the local clock. Before anything is said, everything fits."""

    quota: int | None = None
    window_s: float | None = None
    # What is named is the time when all is back, not when something is: older headers say that.
    is_reset: bool = False
    # What is left was reckoned here since the server last spoke.
    is_reckoned: bool = False
    left: float = math.inf
    told_at_s: float = 0.0
    more_at_s: float = 0.0
    sent_at_s: float = -math.inf
    refused_at_s: float = -math.inf
    refused_until_s: float = -math.inf
    in_flight: int = 0
    # The tickets of those who hold, oldest first: they go in this order.
    queue: list[int] = field(default_factory=list)

    def tell(self, policy: Policy, elsewhere: int, now_s: float) -> None:
        """`elsewhere` are requests on their way of which nobody knows whether they count here: they may."""
        self.quota = policy.quota or self.quota
        self.window_s = policy.window_s or self.window_s
        self.is_reset = policy.window_s is None and policy.more_in_s is not None
        if self.is_reset and policy.more_in_s is not None:
            # The longest that was named is the best guess at a window that is not.
            self.window_s = max(self.window_s or WINDOW_S_MIN, policy.more_in_s)
        if policy.remaining is None:
            return
        more_in_s = policy.more_in_s
        if more_in_s is None:
            more_in_s = self.window_s or MORE_IN_UNKNOWN_S
        # What is on its way may have been counted by the server already; to be safe it is taken off once more.
        self.left = max(0.0, policy.remaining - self.in_flight - elsewhere)
        self.told_at_s, self.more_at_s, self.is_reckoned = now_s, now_s + more_in_s, False

    def refuse(self, wait_s: float, sent_at_s: float, now_s: float) -> None:
        """A wait that is named for a refusal goes before any other time that is, also before an older refusal's.

        Of requests that were on their way together, nobody knows which the server refused last: the longest holds.
        """
        until_s = now_s + wait_s
        if sent_at_s < self.refused_at_s:
            until_s = max(until_s, self.refused_until_s)
        # Earlier than the reset: then there is one more, not all.
        self.is_reset = self.is_reset and until_s >= self.more_at_s
        self.left, self.told_at_s, self.more_at_s = 0.0, now_s, until_s
        self.refused_at_s, self.refused_until_s = now_s, until_s

    def lift(self, sent_at_s: float, now_s: float) -> None:
        """A request was let through. If it was sent after the refusal, the refusal is not for all, or is over."""
        if sent_at_s > self.refused_at_s:
            self.more_at_s = min(self.more_at_s, now_s)

    def free_at_s(self, ticket: int, now_s: float, *, jitter: float, below: float) -> float:
        """When the request with this ticket may go; at the latest now, if it may."""
        self._refill(now_s)
        ahead = bisect_left(self.queue, ticket)
        if self.left > ahead:
            return max(now_s, self._spread_at_s(ahead, now_s, below))
        resume_at_s = self.more_at_s + jitter * (self.more_at_s - self.told_at_s)
        if self.quota is not None and self.window_s is not None:
            beyond = ahead + 1 - self.left - self._back_at_once()
            resume_at_s += max(0.0, beyond) * self.window_s / self.quota
        return max(now_s, resume_at_s)

    def take(self, now_s: float) -> None:
        self.left = max(0.0, self.left - 1)
        self.sent_at_s = now_s
        self.in_flight += 1

    def _spread_at_s(self, ahead: int, now_s: float, below: float) -> float:
        """What is left is made to last until there is more, but nobody goes slower than the limit itself allows."""
        if self.quota is None or self.is_reckoned or now_s >= self.more_at_s or self.left - ahead > below * self.quota:
            return now_s
        since_s = max(self.sent_at_s, self.told_at_s)
        gap_s = (self.more_at_s - since_s) / (self.left + 1)
        if self.window_s is not None:
            gap_s = min(gap_s, self.window_s / self.quota)
        return since_s + gap_s * (ahead + 1)

    def _refill(self, now_s: float) -> None:
        """Past the time that was named, what came back is reckoned until the server speaks again."""
        if self.quota is None or now_s < self.more_at_s or self.left >= self.quota:
            return
        if self.window_s is None:
            self.left = self.quota
            return
        each_s = self.window_s / self.quota
        back = self._back_at_once() + math.floor((now_s - self.more_at_s) / each_s)
        self.left = min(float(self.quota), self.left + back)
        self.told_at_s, self.more_at_s = now_s, now_s + each_s
        self.is_reset, self.is_reckoned = False, True

    def _back_at_once(self) -> int:
        """What is sure to be back at the time that was named: all after a reset or a whole window, else one."""
        assert self.quota is not None
        assert self.window_s is not None
        return self.quota if self.is_reset or self.more_at_s - self.told_at_s >= self.window_s else 1
