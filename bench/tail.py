"""The slowest calls with a million live keys: a table that sweeps or rehashes all at once shows here."""

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from bench.figure import Effort, Figure
from bench.timing import no_collections, percentile, timer_overhead_ns
from headgate import Limiter
from headgate.testing import FakeClock

NAME = "tail"
TARGET_TIMES = 20.0
LIMIT = 100
WINDOW_S = 3600


@dataclass(frozen=True)
class Tail:
    p50_ns: int
    p999_ns: int
    max_ns: int


def _tail(limiter: Limiter, keys: Sequence[str]) -> Tail:
    """Each call on its own. Nothing is subtracted: the clock's cost is in every one of them."""
    check_limit, now = limiter.check_limit, perf_counter_ns
    times_ns = array("q", bytes(8 * len(keys)))
    with no_collections():
        for i, key in enumerate(keys):
            start = now()
            check_limit(key, LIMIT, WINDOW_S)
            times_ns[i] = now() - start
    ordered = sorted(times_ns)
    return Tail(percentile(ordered, 0.5), percentile(ordered, 0.999), ordered[-1])


def _best(tails: Sequence[Tail]) -> Tail:
    return Tail(min(t.p50_ns for t in tails), min(t.p999_ns for t in tails), min(t.max_ns for t in tails))


def _filled(live: int, max_keys: int, clock: FakeClock | None = None) -> Limiter:
    limiter = Limiter(max_keys=max_keys, clock=clock)
    check_limit = limiter.check_limit
    for i in range(live):
        check_limit(f"user:{i}", LIMIT, WINDOW_S)
    return limiter


def _live_keys(effort: Effort, live: int, calls: int) -> Tail:
    limiter = _filled(live, live + live // 4)
    rng = random.Random(3)
    return _best([_tail(limiter, [f"user:{rng.randrange(live)}" for _ in range(calls)]) for _ in range(effort.rounds)])


def _new_keys(effort: Effort, live: int, calls: int, max_keys: int, dead: bool) -> Tail:
    """Keys never seen before: the table must grow (room left), make room (dead) or overflow (full)."""
    rounds = []
    for turn in range(effort.pick(3, 1)):
        clock = FakeClock() if dead else None
        limiter = _filled(live, max_keys, clock)
        if clock is not None:
            clock.advance(3 * WINDOW_S)
        rounds.append(_tail(limiter, [f"new:{turn}:{i}" for i in range(calls)]))
    return _best(rounds)


def run(effort: Effort) -> list[Figure]:
    live, calls = effort.pick(1_000_000, 20_000), effort.pick(200_000, 5_000)
    shown = "1M" if live == 1_000_000 else f"{live // 1000}k"
    cases = [
        (
            f"check_limit p99.9 with {shown} live keys vs its p50",
            TARGET_TIMES,
            _live_keys(effort, live, calls),
        ),
        (
            f"the same, new keys beside {shown} live",
            None,
            _new_keys(effort, live, calls, 2 * live, dead=False),
        ),
        (
            f"the same, new keys, table full of {shown} live",
            None,
            _new_keys(effort, live, calls, live, dead=False),
        ),
        (
            f"the same, new keys, table full of {shown} dead",
            None,
            _new_keys(effort, live, calls, live, dead=True),
        ),
    ]
    overhead_ns = timer_overhead_ns()
    return [
        Figure(
            NAME,
            name,
            tail.p999_ns / tail.p50_ns,
            "x",
            target,
            raw={
                "p50 ns": tail.p50_ns,
                "p99.9 ns": tail.p999_ns,
                "max ns": tail.max_ns,
                "clock alone ns": overhead_ns,
            },
        )
        for name, target, tail in cases
    ]
