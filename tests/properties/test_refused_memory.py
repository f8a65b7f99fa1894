"""Remembering refusals is a short cut: nobody is refused whom the store would let in (SEMANTICS 3.6)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.engine import SubjectUnderTest
from tests.model.algorithms import counter
from tests.model.limits import SECOND_US, Limit
from tests.properties.strategies import START_US, Move, examples, histories, limits, starts_us


@examples(150)
@given(data=st.data(), limit=limits(), start_us=starts_us, history=histories)
def test_no_verdict_differs_because_a_refusal_was_remembered(
    data: st.DataObject, limit: Limit, start_us: int, history: list[Move]
) -> None:
    model, now_us = counter(limit), start_us
    plain, remembering = (SubjectUnderTest(limit, start_us, refused_memory=on) for on in (False, True))
    spent = None
    for move in history:
        what = data.draw(st.integers(0, 11))
        if what == 0:
            limit = Limit(limit.algorithm, 1 + limit.count // 2 if limit.count > 5 else 40, limit.window_us)
            model.limit = limit
            plain.change(limit)
            remembering.change(limit)
        cost = move.cost(limit)
        now_us += move.wait_us(model, cost, now_us)
        for engine in (plain, remembering):
            engine.at(now_us)
        if what == 1 and spent is not None:
            assert plain.engine.refund(spent[0]) == remembering.engine.refund(spent[1])
            spent = None
        one, other = plain.engine.check(cost=cost), remembering.engine.check(cost=cost)
        assert one.allowed == other.allowed
        if one.retry_after is None or other.path == "store":
            assert other.retry_after == one.retry_after
        else:
            # What was remembered may be the wait of a smaller cost: never longer than the true one.
            assert other.retry_after is not None
            assert other.retry_after <= one.retry_after
        if one.allowed and cost:
            model.spend(cost, now_us)
            spent = one, other


def test_a_remembered_refusal_says_so_and_is_forgotten_after_a_second() -> None:
    engine = SubjectUnderTest(Limit("sliding_window", 5, 60 * SECOND_US), START_US, refused_memory=True)
    assert engine.engine.check(cost=4)
    assert engine.engine.check(cost=3).path == "store"
    assert engine.engine.check(cost=3).path == "refused_memory"
    assert engine.engine.check(cost=5).path == "refused_memory"
    assert engine.engine.check(cost=6).retry_after is None, "what can never fit is not worth waiting for"
    assert engine.engine.check(cost=1), "a smaller cost is not covered by it"
    engine.at(START_US + SECOND_US)
    again = engine.engine.check(cost=3)
    assert (again.path, again.retry_after) == ("store", 59.0)
