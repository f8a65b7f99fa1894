"""Each algorithm keeps its promise (SEMANTICS 2.3), and answers exactly as the model does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine import SubjectUnderTest, result
from tests.model.algorithms import counter
from tests.model.limits import ALGORITHMS, Limit
from tests.model.oracle import excess
from tests.properties.strategies import Move, examples, histories, limits, starts_us

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


@each_algorithm
@given(data=st.data(), start_us=starts_us, history=histories)
def test_the_engine_answers_as_the_model_step_for_step(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Move]
) -> None:
    limit = data.draw(limits((algorithm,)))
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    for move in history:
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        assert engine.peek(cost, now_us) == model.peek(cost, now_us)
        assert engine.check(cost, now_us) == model.check(cost, now_us)


@each_algorithm
@given(data=st.data(), start_us=starts_us, history=histories)
def test_no_timing_gets_more_than_promised(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Move]
) -> None:
    limit = data.draw(limits((algorithm,)))
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    admitted = []
    for move in history:
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        if engine.check(cost, now_us).allowed:
            # The model only aims; what counts is what the engine let through.
            model.spend(cost, now_us)
            admitted.append((now_us, cost))
    assert excess(admitted, limit) <= 0


@each_algorithm
@given(data=st.data(), start_us=starts_us, history=histories)
def test_waiting_retry_after_suffices_and_a_microsecond_less_does_not(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Move]
) -> None:
    limit = data.draw(limits((algorithm,)))
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    for move in history:
        cost = move.cost(limit)
        answer = engine.check(cost, now_us)
        if answer.allowed:
            model.spend(cost, now_us)
            now_us += move.wait_us(model, cost, now_us)
            continue
        assert (answer.retry_after_us is None) == (cost > limit.capacity)
        if answer.retry_after_us is not None:
            assert not engine.peek(cost, now_us + answer.retry_after_us - 1).allowed
            now_us += answer.retry_after_us
            assert engine.check(cost, now_us).allowed
            model.spend(cost, now_us)


@each_algorithm
@given(data=st.data(), start_us=starts_us, history=histories, asked=st.integers(0, 400))
def test_a_refused_request_changes_nothing(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Move], asked: int
) -> None:
    limit = data.draw(limits((algorithm,)))
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    for move in history:
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        before = [engine.peek(size, now_us) for size in (0, 1, asked)]
        if engine.check(cost, now_us).allowed:
            model.spend(cost, now_us)
        else:
            assert [engine.peek(size, now_us) for size in (0, 1, asked)] == before


@examples(40)
@given(limit=limits(), start_us=starts_us, history=histories)
def test_the_plain_call_answers_as_the_rule_driven_one(limit: Limit, start_us: int, history: list[Move]) -> None:
    model, engine, now_us = counter(limit), SubjectUnderTest(limit, start_us), start_us
    window_s = limit.window_us / 1_000_000
    for move in history:
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        by_rule = engine.check(cost, now_us)
        plain = engine.engine.check_limit("k", limit.count, window_s, cost, limit.algorithm, limit.burst)
        assert result(plain) == by_rule == model.check(cost, now_us)
