"""The words every model shares: a limit, an answer, a charge."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count as numbers

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
MONTH_US = 30 * 86_400 * SECOND_US

ALGORITHMS = ("sliding_window", "gcra", "fixed_window", "sliding_window_counter", "sliding_log")

_charge_ids = numbers()


@dataclass(frozen=True)
class Limit:
    """`count` per `window_us`; `burst` is for the bucket alone."""

    algorithm: str
    count: int
    window_us: int
    burst: int | None = None

    @property
    def capacity(self) -> int:
        """The most that can be in use at once."""
        return self.count if self.burst is None else self.burst

    @property
    def group_size(self) -> int:
        """How many hits one group of a sliding window holds."""
        return -(-self.count // 32)


@dataclass(frozen=True)
class Result:
    """What one limit answers. `retry_after_us` is None when waiting never helps."""

    allowed: bool
    remaining: int
    retry_after_us: int | None
    reset_after_us: int


@dataclass(eq=False)
class Charge:
    """One past spend. `returned` keeps a charge from being returned twice."""

    at_us: int
    cost: int
    returned: int = 0
    id: int = field(default_factory=lambda: next(_charge_ids))
