"""Rates are delivered, not approximated (SEMANTICS 2.2, REQUIREMENTS C5)."""

from __future__ import annotations

from random import Random

import pytest

from tests.engine import SubjectUnderTest
from tests.model.limits import MINUTE_US, MONTH_US, SECOND_US, Limit, Result
from tests.model.oracle import most_in_any_window
from tests.properties.strategies import START_US

DAY_US = 1_440 * MINUTE_US
RATES = [30_000, 333_333, 700_000, 1_000_000]


@pytest.mark.parametrize("rate", RATES)
def test_a_greedy_client_gets_its_rate_within_a_thousandth_over_a_minute(rate: int) -> None:
    """Every millisecond the client takes all there is: as much as it would get by asking every microsecond,
    since a bucket that is never empty in between loses nothing."""
    limit = Limit("gcra", rate, SECOND_US, burst=rate // 100)
    engine = SubjectUnderTest(limit, START_US)
    now_us = START_US
    assert engine.check(limit.capacity, now_us).allowed
    admitted = 0
    while now_us < START_US + MINUTE_US:
        now_us += 1_000
        cost = engine.peek(0, now_us).remaining
        if cost:
            assert engine.check(cost, now_us).allowed
            admitted += cost
    assert admitted == pytest.approx(rate * 60, rel=0.001)


@pytest.mark.parametrize("rate", RATES)
def test_single_requests_get_the_rate_too(rate: int) -> None:
    """One request each microsecond for a tenth of a second: the bucket is as full at the end as at the start,
    so a minute is this repeated."""
    limit = Limit("gcra", rate, SECOND_US, burst=10)
    engine = SubjectUnderTest(limit, START_US)
    check, advance = engine.engine.check, engine.clock.advance
    while check():
        pass
    admitted = 0
    for _ in range(SECOND_US // 10):
        advance(0.000001)
        admitted += bool(check())
    assert admitted == pytest.approx(rate / 10, rel=0.001)


@pytest.mark.parametrize(
    ("count", "window_us"),
    [(50_000, DAY_US), (51_999, DAY_US), (1_701, MONTH_US), (1_200_000, 60 * MINUTE_US)],
)
def test_large_buckets_lose_nothing_to_rounding(count: int, window_us: int) -> None:
    """Held near their capacity, where their numbers are largest, against plain whole-number arithmetic."""
    limit = Limit("gcra", count, window_us)
    engine, random = SubjectUnderTest(limit, START_US), Random(count)
    now_us = last_us = START_US
    level = 0  # in units of 1/window_us of a token, of which `count` drain each microsecond
    for step in range(4_000):
        now_us += random.randrange(max(2, window_us // count))
        cost = random.randrange(1, max(2, count // 10) if step < 40 else 9)
        level = max(0, level - (now_us - last_us) * count)
        last_us = now_us
        excess = level + cost * window_us - count * window_us
        if excess <= 0:
            level += cost * window_us
        expected = Result(
            excess <= 0,
            (count * window_us - level) // window_us,
            -(-max(0, excess) // count),
            -(-level // count),
        )
        assert engine.check(cost, now_us) == expected, f"step {step}"


@pytest.mark.parametrize("rate", RATES)
def test_a_sliding_window_is_never_over_at_these_rates(rate: int) -> None:
    limit = Limit("sliding_window", rate, SECOND_US)
    engine, random = SubjectUnderTest(limit, START_US), Random(rate)
    now_us, admitted = START_US, []
    while now_us < START_US + 5 * SECOND_US:
        now_us += 1 + random.randrange(2_000)
        cost = min(engine.peek(0, now_us).remaining, 1 + random.randrange(rate // 200))
        if cost and engine.check(cost, now_us).allowed:
            admitted.append((now_us, cost))
    assert most_in_any_window(admitted, SECOND_US) <= rate
    assert sum(cost for _, cost in admitted) >= 5 * rate * 31 // 33, "nor much under"


@pytest.mark.parametrize("count", [1, 2, 5, 16, 31, 32])
@pytest.mark.parametrize("algorithm", ["sliding_window", "sliding_log", "gcra", "fixed_window"])
def test_a_client_at_exactly_its_rate_is_never_refused(algorithm: str, count: int) -> None:
    assert _refused_share(Limit(algorithm, count, 7_440 * SECOND_US)) == 0


@pytest.mark.parametrize("count", [100, 1_000])
@pytest.mark.parametrize("algorithm", ["sliding_log", "gcra", "fixed_window"])
def test_nor_with_larger_limits_where_nothing_is_grouped(algorithm: str, count: int) -> None:
    assert _refused_share(Limit(algorithm, count, MINUTE_US)) == 0


@pytest.mark.parametrize("count", [33, 40, 64, 65, 100, 128, 129, 1_000, 10_000])
def test_a_grouped_window_refuses_a_client_at_its_rate_less_than_one_group_of_a_window(count: int) -> None:
    """A group lives until its last hit is a window old, so all but one of its hits may be counted too long:
    the window is over-counted by less than one group, and no larger share of requests is refused."""
    limit = Limit("sliding_window", count, count * 60_000)
    assert _refused_share(limit) <= (limit.group_size - 1) / count + 1e-3


def _refused_share(limit: Limit) -> float:
    """Of requests spaced evenly at exactly the limit's rate, after the first two windows."""
    assert limit.window_us % limit.count == 0
    engine = SubjectUnderTest(limit, START_US + 12_345)
    interval_s = limit.window_us // limit.count / SECOND_US
    refused = asked = 0
    for number in range(limit.count * (20 if limit.count <= 1_000 else 6)):
        allowed = bool(engine.engine.check())
        if number >= 2 * limit.count:
            asked += 1
            refused += not allowed
        engine.clock.advance(interval_s)
    return refused / asked
