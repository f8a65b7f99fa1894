"""What is returned: once, and never more than it still weighs (SEMANTICS 3.5)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate._core import Decision
from tests.engine import SubjectUnderTest
from tests.model.algorithms import counter
from tests.model.limits import ALGORITHMS, SECOND_US, Charge, Limit
from tests.model.oracle import excess
from tests.properties.strategies import START_US, examples, limits, starts_us

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)


@dataclass(frozen=True)
class Turn:
    """A request and a settlement, close enough together that charges still weigh something."""

    wait: float
    cost: float
    settles: int
    amount: float

    def wait_us(self, limit: Limit) -> int:
        wait_us = int(self.wait * limit.window_us * limit.capacity / limit.count)
        if limit.algorithm != "gcra":
            return wait_us
        # A bucket drains by whole units from turn to turn, so that what is returned is whole as well.
        return wait_us - wait_us % (limit.window_us // limit.count)

    def cost_of(self, limit: Limit) -> int:
        return 1 + int(self.cost * limit.capacity / 4)


parts = st.floats(0, 1, exclude_max=True)
waits = st.one_of(st.just(0.0), st.floats(0, 0.3), parts)
whole_buckets = st.builds(Limit, st.just("gcra"), st.sampled_from([1, 4, 10]), st.just(SECOND_US), st.integers(1, 50))
turns = st.lists(st.builds(Turn, waits, parts, st.integers(0, 7), parts), min_size=2, max_size=40)


@each_algorithm
@examples(400)
@given(data=st.data(), start_us=starts_us, history=turns)
def test_refunds_never_return_more_than_the_charges_still_weigh(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Turn]
) -> None:
    """The engine may return less than the model, which knows every charge by name, but never more. Which of
    its groups a sliding window takes a refund from is its own affair: there the exact log is the measure."""
    limit = data.draw(whole_buckets if algorithm == "gcra" else limits((algorithm,)))
    exact = replace(limit, algorithm="sliding_log") if algorithm == "sliding_window" else limit
    model, engine, now_us = counter(exact), SubjectUnderTest(limit, start_us), start_us
    held: list[tuple[Decision, Charge]] = []
    for turn in history:
        cost = turn.cost_of(limit)
        now_us += turn.wait_us(limit)
        engine.at(now_us)
        decision = engine.engine.check(cost=cost)
        if decision.allowed:
            held.append((decision, model.spend(cost, now_us)))
        if held and turn.settles < 6:
            decision, charge = held.pop(-1 - turn.settles % len(held))
            amount = 1 + int(turn.amount * charge.cost)
            could, its_charge = deepcopy((model, charge))
            returned = engine.engine.refund(decision, amount)
            assert returned <= could.refund(its_charge, amount, now_us)
            model.refund(charge, returned, now_us)
        assert engine.peek(0, now_us).remaining <= model.remaining(now_us)


@each_algorithm
@given(data=st.data(), start_us=starts_us, history=turns)
def test_what_is_kept_never_passes_the_promise(
    algorithm: str, data: st.DataObject, start_us: int, history: list[Turn]
) -> None:
    """Take away what was returned, and what remains is as if only that had ever been asked for."""
    limit = data.draw(whole_buckets if algorithm == "gcra" else limits((algorithm,)))
    engine, now_us = SubjectUnderTest(limit, start_us), start_us
    kept: list[list[int]] = []
    held: list[tuple[Decision, int]] = []
    for turn in history:
        cost = turn.cost_of(limit)
        now_us += turn.wait_us(limit)
        engine.at(now_us)
        decision = engine.engine.check(cost=cost)
        if decision.allowed:
            held.append((decision, len(kept)))
            kept.append([now_us, cost])
        if held and turn.settles < 6:
            decision, place = held.pop(-1 - turn.settles % len(held))
            amount = 1 + int(turn.amount * kept[place][1])
            returned = engine.engine.refund(decision, amount)
            kept[place][1] -= returned
            assert kept[place][1] >= 0
    assert excess([(at_us, cost) for at_us, cost in kept], limit) <= 0


@each_algorithm
@given(data=st.data(), start_us=starts_us, cost=st.integers(1, 50))
def test_a_charge_is_returned_at_most_once(algorithm: str, data: st.DataObject, start_us: int, cost: int) -> None:
    limit = data.draw(limits((algorithm,)))
    engine = SubjectUnderTest(limit, start_us)
    whole = engine.peek(0, start_us)
    cost = min(cost, limit.capacity)
    decision = engine.engine.check(cost=cost)
    assert engine.engine.refund(decision) == cost
    assert engine.peek(0, start_us) == whole
    assert engine.engine.refund(decision) == 0
    assert engine.engine.refund(decision, 1) == 0
    with pytest.raises(RuntimeError):
        engine.engine.commit(decision, 0)
    assert engine.peek(0, start_us) == whole


@each_algorithm
@given(data=st.data(), start_us=starts_us, parts=st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_a_charge_returned_in_parts_is_returned_no_more_than_whole(
    algorithm: str, data: st.DataObject, start_us: int, parts: list[int]
) -> None:
    limit = data.draw(limits((algorithm,)))
    engine = SubjectUnderTest(limit, start_us)
    decision = engine.engine.check(cost=min(10, limit.capacity))
    assert sum(engine.engine.refund(decision, part) for part in parts) <= min(10, limit.capacity)
    assert engine.peek(0, start_us).remaining <= limit.capacity


@each_algorithm
@given(data=st.data(), start_us=starts_us)
def test_nothing_is_returned_for_a_refusal_a_peek_or_an_old_charge(
    algorithm: str, data: st.DataObject, start_us: int
) -> None:
    limit = data.draw(limits((algorithm,)))
    engine = SubjectUnderTest(limit, start_us)
    spent = engine.engine.check(cost=limit.capacity)
    refused, peeked = engine.engine.check(), engine.engine.peek(cost=0)
    before = engine.peek(0, start_us)
    assert engine.engine.refund(refused) == engine.engine.refund(peeked) == 0
    assert engine.peek(0, start_us) == before
    engine.at(start_us + before.reset_after_us)
    assert engine.engine.check()
    assert engine.engine.refund(spent) == 0
    assert engine.peek(0, engine.clock.now_us()).remaining == limit.capacity - 1


@each_algorithm
@given(data=st.data(), start_us=starts_us, reserved=st.integers(1, 40), actual=st.integers(0, 120))
def test_a_commit_leaves_what_a_plain_check_of_the_real_cost_would(
    algorithm: str, data: st.DataObject, start_us: int, reserved: int, actual: int
) -> None:
    limit = data.draw(limits((algorithm,)))
    reserved = min(reserved, limit.capacity)
    engine = SubjectUnderTest(limit, start_us)
    engine.engine.commit(engine.engine.check(cost=reserved), actual)
    assert engine.peek(0, start_us).remaining == max(0, limit.capacity - actual)


def test_two_reservations_settled_one_after_the_other_return_no_more_than_they_weigh() -> None:
    """Ten at once, one a second. Two reservations of five; the first is given back after a second (four of it
    are left), so from then on the second one drains: two seconds later it weighs three."""
    limit = Limit("gcra", 1, SECOND_US, 10)
    engine = SubjectUnderTest(limit, START_US)
    first, second = engine.engine.check(cost=5), engine.engine.check(cost=5)
    engine.at(START_US + SECOND_US)
    assert engine.engine.refund(first) <= 4
    engine.at(START_US + 3 * SECOND_US)
    assert engine.engine.check(cost=3)
    assert engine.engine.refund(second) <= 3
    left = engine.peek(0, START_US + 3 * SECOND_US).remaining
    assert left + 3 <= limit.capacity, "three were kept this instant, so at most seven more fit"


def test_a_charge_that_drained_before_the_bucket_was_cleared_returns_nothing_after() -> None:
    """The small reservation drains away; refunds empty the bucket; what comes later is not its to return."""
    limit = Limit("gcra", 1, SECOND_US, 10)
    engine = SubjectUnderTest(limit, START_US)
    large, small = engine.engine.check(cost=8), engine.engine.check(cost=1)
    assert engine.engine.refund(large) == 8
    engine.at(START_US + SECOND_US // 2)
    late = engine.engine.check(cost=1)
    engine.at(START_US + SECOND_US)
    assert engine.engine.refund(late) == 1
    assert engine.engine.check(cost=5)
    assert engine.engine.refund(small) == 0
    assert engine.peek(0, START_US + SECOND_US).remaining == 5


def test_a_charge_returns_nothing_to_a_bucket_that_was_forgotten_since() -> None:
    """As above, but the drained bucket's place was taken by others meanwhile."""
    limit = Limit("gcra", 1, SECOND_US, 10)
    engine = SubjectUnderTest(limit, START_US, max_keys=64)
    large, small = engine.engine.check(cost=8), engine.engine.check(cost=1)
    assert engine.engine.refund(large) == 8
    engine.at(START_US + 4 * SECOND_US)
    for number in range(60):
        engine.engine.check_limit(f"other{number}", 1, 1)
    engine.at(START_US + 6 * SECOND_US)
    assert engine.engine.check(cost=5)
    assert engine.engine.refund(small) == 0
