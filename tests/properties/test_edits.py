"""Changing a rule changes the limit, never the usage (SEMANTICS 2.1, 2.2)."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import Clocked, SubjectUnderTest, limit_text
from tests.model.algorithms import counter
from tests.model.limits import ALGORITHMS, MINUTE_US, SECOND_US, Limit
from tests.properties.strategies import START_US, Move, counts, histories, limits, starts_us


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(data=st.data(), start_us=starts_us, history=histories)
def test_a_limit_raised_or_lowered_midway_keeps_its_usage(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Move]
) -> None:
    limit = data.draw(limits((algorithm,)))
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    for move in history:
        if data.draw(st.integers(0, 3)) == 0:
            limit = Limit(algorithm, data.draw(counts), limit.window_us, limit.burst and data.draw(counts))
            model.limit = limit
            engine.change(limit)
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        assert engine.check(cost, now_us) == model.check(cost, now_us)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "gcra"])
@given(data=st.data(), start_us=starts_us, history=histories)
def test_a_window_made_longer_or_shorter_midway_keeps_its_usage(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Move]
) -> None:
    """A bucket's level is rounded to the new limit's units, so it has vectors of its own instead."""
    limit = data.draw(limits((algorithm,)))
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    for move in history:
        if data.draw(st.integers(0, 3)) == 0:
            factor = data.draw(st.sampled_from([(1, 2), (2, 1), (10, 1), (1, 10)]))
            window_us = max(1_000, limit.window_us * factor[0] // factor[1] // 1_000 * 1_000)
            limit = Limit(algorithm, limit.count, min(window_us, 30 * 86_400 * SECOND_US))
            model.limit = limit
            engine.change(limit)
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        assert engine.check(cost, now_us) == model.check(cost, now_us)


@pytest.mark.parametrize(("before", "after"), list(permutations(ALGORITHMS, 2)))
@given(used=st.integers(1, 100), count=st.integers(1, 200), start_us=starts_us)
def test_another_algorithm_takes_the_usage_over(before: str, after: str, used: int, count: int, start_us: int) -> None:
    engine = SubjectUnderTest(Limit(before, 100, MINUTE_US), start_us)
    assert engine.check(used, start_us).allowed
    engine.change(Limit(after, count, MINUTE_US))
    assert engine.peek(0, start_us).remaining == max(0, count - used)
    # Taking over is not spending: asking twice finds the same.
    assert engine.peek(0, start_us).remaining == max(0, count - used)
    assert engine.check(1, start_us).allowed == (used < count)


@pytest.mark.parametrize(
    ("before", "after"), [pair for pair in permutations(ALGORITHMS, 2) if pair[1] != "fixed_window"]
)
@given(history=st.lists(st.integers(1, 20), min_size=1, max_size=40), wait_us=st.integers(0, MINUTE_US // 50 - 1))
def test_a_refused_client_is_not_let_in_by_another_algorithm(
    before: str, after: str, history: list[int], wait_us: int
) -> None:
    """(A fixed window may: what was used before its boundary is no part of it.)"""
    engine, now_us = SubjectUnderTest(Limit(before, 50, MINUTE_US), START_US), START_US
    last_us = now_us
    for cost in [*history, *[1] * 50]:
        now_us += 0 if cost == 1 else MINUTE_US // 100
        if engine.check(cost, now_us).allowed:
            last_us = now_us
    now_us += wait_us
    # A bucket drains from the last hit on, so after a token's time it rightly lets one in.
    if engine.peek(1, now_us).allowed or now_us - last_us >= MINUTE_US // 50:
        return
    engine.change(Limit(after, 50, MINUTE_US))
    assert not engine.peek(1, now_us).allowed


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("settled", ["refund", "commit"])
def test_settling_after_a_change_of_algorithm_is_harmless(algorithm: str, settled: str) -> None:
    for other in ALGORITHMS:
        engine, now_us = SubjectUnderTest(Limit(algorithm, 1_000, MINUTE_US), START_US), START_US
        decisions = []
        for number in range(200):
            if number == 100:
                engine.change(Limit(other, 1_000, MINUTE_US))
            now_us += 1_000
            engine.at(now_us)
            decisions.append(engine.engine.check(cost=2))
        before = engine.peek(0, now_us).remaining
        for decision in decisions[::10]:
            returned = engine.engine.refund(decision) if settled == "refund" else engine.engine.commit(decision, 1)
            assert 0 <= returned <= 2
        assert before <= engine.peek(0, now_us).remaining <= 1_000


LOGIN = "/login"


def login(name: str, limit: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "match": {"tier": name, "endpoint": LOGIN},
        "by": "user",
        "limit": limit,
        "counter": "login",
    } | fields


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(used=st.integers(0, 5), more=st.integers(0, 10))
def test_a_change_of_tier_changes_the_limit_and_not_the_usage(algorithm: str, used: int, more: int) -> None:
    engine = Clocked(START_US)
    rules = [login("free", "5/minute", algorithm=algorithm), login("gold", "20/minute", algorithm=algorithm)]
    engine.engine.load_rules(json.dumps({"rules": rules}))
    facts: dict[str, Any] = {"user": "42", "path": LOGIN}
    for _ in range(used):
        assert engine.engine.check(**facts)
    for _ in range(more):
        assert engine.engine.check(tier="gold", **facts)
    assert engine.engine.peek(cost=0, tier="gold", **facts).remaining == 20 - used - more
    assert engine.engine.peek(cost=0, **facts).remaining == max(0, 5 - used - more)
    assert engine.engine.peek(cost=0, user="43", path=LOGIN).remaining == 5, "another user is not touched"


@given(used=st.integers(0, 5), allowance=st.integers(1, 50))
def test_an_override_that_shares_the_counter_keeps_the_usage(used: int, allowance: int) -> None:
    engine = Clocked(START_US)
    engine.engine.put_rule(json.dumps(login("free", "5/minute")))
    facts: dict[str, Any] = {"user": "42", "path": LOGIN}
    for _ in range(used):
        assert engine.engine.check(**facts)
    override = {"user": "42", "limit": f"{allowance}/minute", "counter": "login"}
    engine.engine.put_override(json.dumps(override))
    assert engine.engine.peek(cost=0, **facts).remaining == max(0, allowance - used)
    assert engine.engine.remove_override("user", "42")
    assert engine.engine.peek(cost=0, **facts).remaining == 5 - used


@given(used=st.integers(0, 5))
def test_an_override_of_the_tier_moves_the_user_with_all_usage(used: int) -> None:
    engine = Clocked(START_US)
    rules = [login("free", "5/minute"), login("gold", "20/minute")]
    engine.engine.load_rules(json.dumps({"rules": rules}))
    for _ in range(used):
        assert engine.engine.check(user="42", path=LOGIN)
    engine.engine.put_override(json.dumps({"user": "42", "tier": "gold"}))
    assert engine.engine.peek(cost=0, user="42", path=LOGIN).remaining == 20 - used


@given(used=st.integers(1, 9), data=st.data())
def test_reloading_the_same_rules_forgets_nothing(used: int, data: st.DataObject) -> None:
    limit = data.draw(limits())
    engine = SubjectUnderTest(limit, START_US)
    for _ in range(used):
        engine.check(1, START_US)
    before = engine.peek(0, START_US)
    rule = {"name": "r", "by": "global", "algorithm": limit.algorithm, "limit": limit_text(limit)}
    engine.engine.load_rules(json.dumps({"rules": [{"name": "a", "by": "user", "limit": "1/day"}, rule]}))
    assert engine.peek(0, START_US) == before
    engine.engine.remove_rule("r")
    engine.engine.put_rule(json.dumps(rule))
    assert engine.peek(0, START_US) == before
