"""The five algorithms, exactly (SEMANTICS 2.3).

A model says only what is in use at a moment and what a spend or a refund does to that. What fits, how long
to wait and when all is forgotten are then found by searching time itself, so that no formula of the engine is
repeated here. Usage never grows while nobody spends, so a binary search is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from math import floor

from tests.model.limits import Charge, Limit, Result

GROUPS_MAX = 65


def least_wait_us(true_after: Callable[[int], bool]) -> int:
    """The least wait after which something is true that, once true, stays so."""
    if true_after(0):
        return 0
    no, yes = 0, 1
    while not true_after(yes):
        no, yes = yes, yes * 2
    while yes - no > 1:
        middle = (no + yes) // 2
        no, yes = (no, middle) if true_after(middle) else (middle, yes)
    return yes


class Counter(ABC):
    """One limit's usage. `limit` may be replaced at any time by another of the same algorithm."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.last_us = 0

    @abstractmethod
    def used(self, now_us: int) -> Fraction | int:
        """What is in use."""

    @abstractmethod
    def add(self, charge: Charge) -> None:
        """Records a charge, whether or not it fits."""

    @abstractmethod
    def take_back(self, charge: Charge, amount: int, now_us: int) -> int:
        """Returns up to `amount` of a charge; how much of it that was, in whole units."""

    def fits(self, cost: int, now_us: int) -> bool:
        return self.used(now_us) + cost <= self.limit.capacity

    def remaining(self, now_us: int) -> int:
        return max(0, floor(self.limit.capacity - self.used(now_us)))

    def wait_us(self, cost: int, now_us: int) -> int | None:
        if cost > self.limit.capacity:
            return None
        return least_wait_us(lambda wait_us: self.fits(cost, now_us + wait_us))

    def next_after_us(self, now_us: int) -> int:
        """How long until more is left than now; 0 when nothing is used."""
        if self.used(now_us) == 0:
            return 0
        left = self.remaining(now_us)
        if left == self.limit.capacity:
            return 0
        return least_wait_us(lambda wait_us: self.remaining(now_us + wait_us) > left)

    def reset_after_us(self, now_us: int) -> int:
        return least_wait_us(lambda wait_us: self.used(now_us + wait_us) == 0)

    def spend(self, cost: int, now_us: int) -> Charge:
        """Spends unconditionally."""
        charge = Charge(max(now_us, self.last_us), cost)
        self.add(charge)
        self.last_us = charge.at_us
        return charge

    def decide(self, cost: int, now_us: int) -> tuple[Result, Charge | None]:
        """Spends if it fits. The charge is what a refund is later measured against."""
        wait_us = self.wait_us(cost, now_us)
        charge = self.spend(cost, now_us) if wait_us == 0 and cost > 0 else None
        answer = Result(wait_us == 0, self.remaining(now_us), wait_us, self.reset_after_us(now_us))
        return answer, charge

    def check(self, cost: int, now_us: int) -> Result:
        return self.decide(cost, now_us)[0]

    def peek(self, cost: int, now_us: int) -> Result:
        """As `check` would answer, changing nothing."""
        return deepcopy(self).check(cost, now_us)

    def refund(self, charge: Charge, amount: int, now_us: int) -> int:
        """SEMANTICS 3.5: once, and at most what the charge still weighs."""
        now_us = max(now_us, self.last_us)
        returned = self.take_back(charge, min(amount, charge.cost - charge.returned), now_us)
        charge.returned += returned
        return returned


class _Log(Counter):
    """Groups of hits, oldest first. Each group: [time of its last hit, {charge id: what it still holds}]."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.groups: list[tuple[int, dict[int, int]]] = []

    def alive(self, now_us: int) -> list[tuple[int, dict[int, int]]]:
        return [group for group in self.groups if group[0] + self.limit.window_us > now_us]

    def used(self, now_us: int) -> int:
        born_after_us = now_us - self.limit.window_us
        return sum(sum(hits.values()) for at_us, hits in self.groups if at_us > born_after_us)

    def joins(self, newest: tuple[int, dict[int, int]], charge: Charge) -> bool:
        raise NotImplementedError

    def add(self, charge: Charge) -> None:
        self.groups = self.alive(charge.at_us)
        if self.groups and self.joins(self.groups[-1], charge):
            hits = self.groups.pop()[1]
            self.groups.append((charge.at_us, hits | {charge.id: charge.cost}))
        else:
            self.groups.append((charge.at_us, {charge.id: charge.cost}))

    def take_back(self, charge: Charge, amount: int, now_us: int) -> int:
        if charge.at_us + self.limit.window_us <= now_us:
            return 0
        for _, hits in self.alive(now_us):
            if charge.id in hits:
                returned = min(amount, hits[charge.id])
                hits[charge.id] -= returned
                return returned
        return 0


class SlidingWindow(_Log):
    """Groups of ceil(N/32) hits, each forgotten when its last hit is a window old."""

    def joins(self, newest: tuple[int, dict[int, int]], charge: Charge) -> bool:
        if len(self.groups) >= GROUPS_MAX:
            return True
        return sum(newest[1].values()) + charge.cost <= self.limit.group_size


class SlidingLog(_Log):
    """Every hit for itself."""

    def joins(self, newest: tuple[int, dict[int, int]], charge: Charge) -> bool:
        return newest[0] == charge.at_us


class Bucket(Counter):
    """GCRA: a level that drains at count/window and never passes the capacity.

    The level is a queue of what each charge still weighs; draining eats the oldest first. A changed limit
    rereads the level as it was at the last write, clamped to the new capacity, and drains it at the new rate
    from there: all that a (level, time) pair can say (SEMANTICS 2.2).
    """

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.at_us = 0
        self.level = Fraction(0)
        self.queue: list[tuple[int, Fraction]] = []

    def _drained(self, now_us: int) -> Fraction:
        """What is gone since the last write, counting what a smaller capacity no longer remembers."""
        over = max(Fraction(0), self.level - self.limit.capacity)
        return over + Fraction(self.limit.count * max(0, now_us - self.at_us), self.limit.window_us)

    def _at(self, now_us: int) -> list[tuple[int, Fraction]]:
        drained = self._drained(now_us)
        left = []
        for charge_id, weight in self.queue:
            eaten = min(drained, weight)
            drained -= eaten
            if weight > eaten:
                left.append((charge_id, weight - eaten))
        return left

    def _write(self, queue: list[tuple[int, Fraction]], now_us: int) -> None:
        self.queue, self.at_us = queue, now_us
        self.level = sum((weight for _, weight in queue), Fraction(0))

    def used(self, now_us: int) -> Fraction:
        return max(Fraction(0), self.level - self._drained(now_us))

    def add(self, charge: Charge) -> None:
        # A bucket never owes more than its capacity: what a forced spend has beyond that is not remembered.
        room = max(Fraction(0), self.limit.capacity - self.used(charge.at_us))
        weight = min(Fraction(charge.cost), room)
        self._write([*self._at(charge.at_us), (charge.id, weight)], charge.at_us)

    def take_back(self, charge: Charge, amount: int, now_us: int) -> int:
        queue = self._at(now_us)
        weighs = dict(queue).get(charge.id, Fraction(0))
        returned = min(weighs, Fraction(amount))
        if returned == 0:
            return 0
        left = [(id_, weight - returned if id_ == charge.id else weight) for id_, weight in queue]
        self._write(left, now_us)
        return floor(returned)


class FixedWindow(Counter):
    """N for each window that starts at a multiple of its length since the epoch."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.hits: list[tuple[int, int, int]] = []  # (charge id, time, what it still holds)
        self.at_us = 0

    def _current(self, now_us: int) -> bool:
        return now_us // self.limit.window_us == self.at_us // self.limit.window_us

    def used(self, now_us: int) -> int:
        return sum(cost for *_, cost in self.hits) if self._current(now_us) else 0

    def add(self, charge: Charge) -> None:
        kept = self.hits if self._current(charge.at_us) else []
        self.hits = [*kept, (charge.id, charge.at_us, charge.cost)]
        self.at_us = charge.at_us

    def take_back(self, charge: Charge, amount: int, now_us: int) -> int:
        window_us = self.limit.window_us
        if charge.at_us // window_us != now_us // window_us:
            return 0
        return _take(self.hits, charge.id, amount)


class SlidingWindowCounter(Counter):
    """The previous aligned window, weighted by how much of it still overlaps, plus the current one."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.at_us = 0
        self.current: list[tuple[int, int, int]] = []
        self.previous: list[tuple[int, int, int]] = []

    def _seen(self, now_us: int) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        passed = now_us // self.limit.window_us - self.at_us // self.limit.window_us
        if passed == 0:
            return self.previous, self.current
        return (self.current, []) if passed == 1 else ([], [])

    def used(self, now_us: int) -> Fraction:
        previous, current = self._seen(now_us)
        overlap = Fraction(self.limit.window_us - now_us % self.limit.window_us, self.limit.window_us)
        return sum(cost for *_, cost in current) + sum(cost for *_, cost in previous) * overlap

    def add(self, charge: Charge) -> None:
        previous, current = self._seen(charge.at_us)
        self.previous, self.current = previous, [*current, (charge.id, charge.at_us, charge.cost)]
        self.at_us = charge.at_us

    def take_back(self, charge: Charge, amount: int, now_us: int) -> int:
        """A hit of the previous window is returned whole: that returns what it still weighs, no more."""
        for hits in self._seen(now_us):
            if returned := _take(hits, charge.id, amount):
                return returned
        return 0


def _take(hits: list[tuple[int, int, int]], charge_id: int, amount: int) -> int:
    for position, (id_, at_us, cost) in enumerate(hits):
        if id_ == charge_id:
            returned = min(amount, cost)
            hits[position] = (id_, at_us, cost - returned)
            return returned
    return 0


MODELS: dict[str, type[Counter]] = {
    "sliding_window": SlidingWindow,
    "gcra": Bucket,
    "fixed_window": FixedWindow,
    "sliding_window_counter": SlidingWindowCounter,
    "sliding_log": SlidingLog,
}


def counter(limit: Limit) -> Counter:
    return MODELS[limit.algorithm](limit)
