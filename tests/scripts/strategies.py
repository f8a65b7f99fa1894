"""Calls of the scripts as hypothesis draws them: a few limits and keys, so that they meet, and times aimed at edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.model.algorithms import least_wait_us
from tests.model.limits import ALGORITHMS, MINUTE_US, SECOND_US, Limit
from tests.scripts.calls import Ask, Request, ScriptLimit
from tests.scripts.record import COUNT_MAX
from tests.scripts.reference import Reference, fits

START_US = 1_760_000_000 * SECOND_US
DAY_US = 1_440 * MINUTE_US
KEYS = ("hg1:{user:1}", "hg1:{user:1}:/login", "hg1:{org:1}")
IDS = (1, 2**40 - 1, 77, 123_456_789_012)
LARGEST_COUNT = 10**12
LARGEST_COUNTS = {"sliding_log": 10_000, "sliding_window_counter": 2**32 - 1}

windows_us = st.sampled_from([1_000, 7_000, SECOND_US, 10 * SECOND_US, MINUTE_US, DAY_US, 366 * DAY_US])
counts = st.one_of(
    st.integers(1, 10),
    st.sampled_from([31, 32, 33, 65, 100, 2_080, 65_535 * 32, 65_536 * 32, 2**32 - 1, LARGEST_COUNT]),
    st.integers(1, 5_000),
)


@st.composite
def limits(draw: st.DrawFn, algorithms: tuple[str, ...] = ALGORITHMS) -> Limit:
    algorithm = draw(st.sampled_from(algorithms))
    burst = draw(st.none() | st.integers(1, 300) | st.just(LARGEST_COUNT)) if algorithm == "gcra" else None
    count = min(draw(counts), LARGEST_COUNTS.get(algorithm, LARGEST_COUNT))
    return Limit(algorithm, count, draw(windows_us), burst)


@dataclass(frozen=True)
class Cost:
    """How much, of what the request's first limit has room for."""

    kind: str
    share: float

    def of(self, ask: Ask, world: Reference, now_us: int) -> int:
        capacity = ask.limit.limit.capacity
        match self.kind:
            case "none":
                return 0
            case "some":
                return 1 + int(self.share * min(capacity, 4 * ask.limit.limit.group_size))
            case "half":
                return max(1, capacity // 2)
            case "what is left":
                return _most(lambda cost: fits(ask.limit, world.entry(ask.key, ask.limit.id), cost, now_us), capacity)
            case "more than is left":
                return 1 + _most(
                    lambda cost: fits(ask.limit, world.entry(ask.key, ask.limit.id), cost, now_us), capacity
                )
            case "too many":
                return capacity + 1
            case "most":
                return COUNT_MAX
        return 1


def _most(true_of: Callable[[int], bool], end: int) -> int:
    """The largest number up to `end` of which something is true that is true of all smaller ones."""
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if true_of(middle) else (low, middle - 1)
    return low


costs = st.builds(
    Cost,
    kind=st.sampled_from(
        ["one", "one", "one", "some", "some", "half", "what is left", "more than is left", "too many", "none", "most"]
    ),
    share=st.floats(0, 1, exclude_max=True),
)


@dataclass(frozen=True)
class Passing:
    """How the clock moves before a call, by what some limit there would wait for."""

    kind: str
    share: float
    off_us: int

    def after(self, now_us: int, ask: Ask, world: Reference) -> int:
        window_us = ask.limit.limit.window_us
        match self.kind:
            case "at once":
                return now_us
            case "back":
                return max(START_US - window_us, now_us - int(self.share * window_us))
            case "retry":
                entry = world.entry(ask.key, ask.limit.id)
                wait_us = least_wait_us(lambda wait_us: fits(ask.limit, entry, 1, now_us + wait_us))
                return max(now_us, now_us + min(wait_us, 400 * DAY_US) + self.off_us)
            case "window":
                return max(now_us, now_us + window_us + self.off_us)
            case "aligned":
                return max(now_us, now_us - now_us % window_us + window_us + self.off_us)
            case "soon":
                return now_us + int(self.share * 2 * window_us / min(64, ask.limit.limit.count))
        return now_us + int(self.share * 1.5 * window_us)


passings = st.builds(
    Passing,
    kind=st.sampled_from(["at once", "at once", "soon", "soon", "retry", "window", "aligned", "any", "back"]),
    share=st.floats(0, 1, exclude_max=True),
    off_us=st.sampled_from([-1, 0, 0, 1]),
)


@dataclass(frozen=True)
class DrawnRequest:
    asks: tuple[Ask, ...]
    cost: Cost
    forced: bool

    def request(self, world: Reference, now_us: int) -> Request:
        return Request(self.asks, min(self.cost.of(self.asks[0], world, now_us), COUNT_MAX), self.forced)


@dataclass(frozen=True)
class Check:
    passing: Passing
    requests: tuple[DrawnRequest, ...]


@dataclass(frozen=True)
class Refund:
    """Of earlier charges, counted from the latest; `amount_share` of each."""

    passing: Passing
    charges: tuple[int, ...]
    amount_share: float


@dataclass(frozen=True)
class Reset:
    asks: tuple[Ask, ...]


Call = Check | Refund | Reset


@st.composite
def calls(draw: st.DrawFn, algorithms: tuple[str, ...] = ALGORITHMS, most: int = 25) -> list[Call]:
    """A history over few limits, each of which may be met in two forms: before and after somebody changed it."""
    forms = [ScriptLimit(limit_id, draw(limits(algorithms))) for limit_id in IDS for _ in range(2)]
    asks = st.builds(
        Ask,
        key=st.sampled_from(KEYS),
        limit=st.sampled_from(forms),
        shadow=st.sampled_from([False, False, False, True]),
    )
    several = st.lists(asks, min_size=1, max_size=5).map(tuple)
    # Most requests are alike: a few kinds of them, met again and again.
    kinds = draw(st.lists(several, min_size=1, max_size=3))
    requests = st.builds(
        DrawnRequest,
        asks=st.sampled_from(kinds),
        cost=costs,
        forced=st.sampled_from([False, False, False, False, False, True]),
    )
    checks = st.builds(Check, passings, st.lists(requests, min_size=1, max_size=4).map(tuple))
    refunds = st.builds(
        Refund, passings, st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple), st.floats(0, 1)
    )
    resets = st.builds(Reset, several)
    return draw(
        st.lists(st.one_of(checks, checks, checks, checks, refunds, refunds, resets), min_size=1, max_size=most)
    )
