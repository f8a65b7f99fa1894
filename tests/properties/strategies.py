"""What the properties are tried on: limits, and steps in time aimed at the moments where answers change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.model.algorithms import Counter
from tests.model.limits import ALGORITHMS, MINUTE_US, SECOND_US, Limit

EFFORT = int(os.environ.get("HEADGATE_EFFORT", "1"))
START_US = 1_760_000_000 * SECOND_US


def examples(count: int) -> settings:
    """How many examples a property is tried on, times the effort asked for."""
    return settings(max_examples=count * EFFORT)


windows_us = st.sampled_from(
    [1_000, 7_000, SECOND_US, 3 * SECOND_US, 10 * SECOND_US, MINUTE_US, 60 * MINUTE_US, 1_440 * MINUTE_US]
)
counts = st.one_of(
    st.integers(1, 10),
    st.sampled_from([31, 32, 33, 63, 64, 65, 97, 100, 128]),
    st.integers(1, 2_000),
)


@st.composite
def limits(draw: st.DrawFn, algorithms: tuple[str, ...] = ALGORITHMS) -> Limit:
    algorithm = draw(st.sampled_from(algorithms))
    burst = draw(st.none() | st.integers(1, 300)) if algorithm == "gcra" else None
    return Limit(algorithm, draw(counts), draw(windows_us), burst)


@dataclass(frozen=True)
class Move:
    """A request: how long after the last one, and how large, both relative to what the counter thinks."""

    kind: str
    share: float
    off_us: int
    cost_kind: str
    cost_share: float

    def cost(self, limit: Limit) -> int:
        capacity = limit.capacity
        match self.cost_kind:
            case "one":
                return 1
            case "some":
                return 1 + int(self.cost_share * min(capacity, 4 * limit.group_size))
            case "many":
                return max(1, int(self.cost_share * capacity))
            case "all":
                return capacity
            case "too many":
                return capacity + 1
            case _:
                return 0

    def wait_us(self, counter: Counter, cost: int, now_us: int) -> int:
        window_us = counter.limit.window_us
        match self.kind:
            case "at once":
                return 0
            case "retry":
                wait_us = counter.wait_us(cost, now_us) or 0
            case "next":
                wait_us = counter.next_after_us(now_us)
            case "reset":
                wait_us = counter.reset_after_us(now_us)
            case "window":
                wait_us = window_us
            case "aligned":
                wait_us = window_us - now_us % window_us
            case "soon":
                return int(self.share * 2 * window_us / max(1, min(counter.limit.count, 64)))
            case _:
                return int(self.share * 1.5 * window_us)
        return max(0, wait_us + self.off_us)


moves = st.builds(
    Move,
    kind=st.sampled_from(["at once", "retry", "retry", "next", "reset", "window", "aligned", "soon", "any"]),
    share=st.floats(0, 1, exclude_max=True),
    off_us=st.sampled_from([-1, 0, 0, 1]),
    cost_kind=st.sampled_from(["one", "one", "some", "many", "all", "too many", "none"]),
    cost_share=st.floats(0, 1, exclude_max=True),
)
histories = st.lists(moves, min_size=1, max_size=60)
starts_us = st.one_of(st.just(START_US), st.integers(START_US, START_US + 2 * MINUTE_US))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value, as the object or list it is in and its key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from places(item)
