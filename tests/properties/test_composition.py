"""Several limits on one request are decided together (SEMANTICS 3.1, 3.2)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate._core import Decision
from tests.engine import Clocked, limit_text, result
from tests.model.algorithms import Counter, counter
from tests.model.limits import Limit, Result
from tests.properties.strategies import START_US, Move, histories, limits, starts_us


class Composed(Clocked):
    """Rules that all apply (each `by` its own descriptor), the first with two limits, the last in shadow."""

    def __init__(self, enforced: list[Limit], shadow: Limit | None, start_us: int) -> None:
        super().__init__(start_us)
        self.descriptors = {f"d{number}": "x" for number in range(len(enforced) + 1)}
        first = [
            {"limit": limit_text(limit), "algorithm": limit.algorithm, "label": f"l{number}"}
            for number, limit in enumerate(enforced[:2])
        ]
        rules: list[dict[str, Any]] = [{"name": "r0", "by": "d0", "limit": first}]
        for number, limit in enumerate(enforced[2:], 2):
            rules.append(self._rule(number, limit))
        if shadow is not None:
            rules.append(self._rule(len(enforced), shadow) | {"action": "shadow"})
        self.engine.load_rules(json.dumps({"rules": rules}))

    @staticmethod
    def _rule(number: int, limit: Limit) -> dict[str, Any]:
        return {
            "name": f"r{number}",
            "by": f"d{number}",
            "algorithm": limit.algorithm,
            "limit": [{"limit": limit_text(limit), "label": f"l{number}"}],
        }

    def check(self, cost: int, now_us: int) -> Decision:
        self.at(now_us)
        return self.engine.check(cost=cost, descriptors=self.descriptors)

    def peek(self, cost: int, now_us: int) -> Decision:
        self.at(now_us)
        return self.engine.peek(cost=cost, descriptors=self.descriptors)


def results(decision: Decision) -> dict[str, Result]:
    return {item.label: result(item) for item in decision.results}


several = st.lists(limits(), min_size=2, max_size=6)


def expected(models: list[Counter], shadow: Counter | None, cost: int, now_us: int) -> dict[str, Result]:
    """What every limit answers, spending as SEMANTICS 3.2 says."""
    waits = [model.wait_us(cost, now_us) for model in models]
    passes = all(wait_us == 0 for wait_us in waits)
    every = [*models, shadow] if shadow is not None else models
    answers = {}
    for number, model in enumerate(every):
        wait_us = model.wait_us(cost, now_us)
        if passes and wait_us == 0 and cost > 0:
            model.spend(cost, now_us)
        left, reset_after_us = model.remaining(now_us), model.reset_after_us(now_us)
        answers[f"l{number}"] = Result(wait_us == 0, left, wait_us, reset_after_us)
    return answers


@given(enforced=several, shadow=st.none() | limits(), start_us=starts_us, history=histories)
def test_all_limits_allow_or_nothing_is_spent(
    enforced: list[Limit], shadow: Limit | None, start_us: int, history: list[Move]
) -> None:
    engine = Composed(enforced, shadow, start_us)
    models = [counter(limit) for limit in enforced]
    shadow_model = None if shadow is None else counter(shadow)
    now_us = start_us
    for number, move in enumerate(history):
        aimed = models[number % len(models)]
        cost = move.cost(aimed.limit)
        now_us += move.wait_us(aimed, cost, now_us)
        before = results(engine.peek(0, now_us))
        decision = engine.check(cost, now_us)
        answers = expected(models, shadow_model, cost, now_us)
        assert results(decision) == answers
        assert decision.allowed == all(answers[f"l{n}"].allowed for n in range(len(models)))
        if not decision.allowed:
            assert results(engine.peek(0, now_us)) == before


@given(enforced=several, start_us=starts_us, history=histories)
def test_the_binding_limit_is_the_one_that_matters_most(
    enforced: list[Limit], start_us: int, history: list[Move]
) -> None:
    """SEMANTICS 3.1: refused, the longest wait (never beats all); allowed, the smallest share left."""
    engine = Composed(enforced, None, start_us)
    models = [counter(limit) for limit in enforced]
    now_us = start_us
    for number, move in enumerate(history):
        aimed = models[number % len(models)]
        cost = move.cost(aimed.limit)
        now_us += move.wait_us(aimed, cost, now_us)
        decision = engine.check(cost, now_us)
        expected(models, None, cost, now_us)
        binding = result(decision)
        if decision.allowed:
            shares = [item.remaining / item.limit for item in decision.results]
            assert decision.limit is not None
            assert binding.remaining / decision.limit == min(shares)
        else:
            waits = [item.retry_after for item in decision.results if not item.allowed]
            longest = None if None in waits else max(wait for wait in waits if wait is not None)
            assert decision.retry_after == longest


@given(enforced=several, start_us=starts_us, history=histories)
def test_waiting_for_the_binding_limit_is_enough_for_all(
    enforced: list[Limit], start_us: int, history: list[Move]
) -> None:
    engine, now_us = Composed(enforced, None, start_us), start_us
    smallest = min(limit.capacity for limit in enforced)
    for move in history:
        cost = 1 + int(move.cost_share * smallest)
        answer = result(engine.check(min(cost, smallest), now_us))
        if not answer.allowed:
            assert answer.retry_after_us is not None
            assert answer.retry_after_us > 0
            assert not engine.peek(min(cost, smallest), now_us + answer.retry_after_us - 1)
            now_us += answer.retry_after_us
            assert engine.check(min(cost, smallest), now_us)


def test_every_one_of_eighty_limits_counts() -> None:
    """A bound on how many limits one request may meet must not silently let the rest go."""
    engine = Clocked(START_US)
    names = ["user", "org", "ip", "region", "global"]
    rules = [
        {"name": by, "by": by, "limit": [f"{1_000 - 10 * at - nth}/{nth + 1}h" for nth in range(16)]}
        for at, by in enumerate(names)
    ]
    engine.engine.load_rules(json.dumps({"rules": rules}))
    decision = engine.engine.check(user="u", org="o", ip="198.51.100.1", region="eu")
    assert len(decision.results) == 80
    assert not engine.engine.check(user="u", org="o", ip="198.51.100.1", region="eu", cost=946)


def test_a_shadow_rule_that_shares_a_counter_does_not_count_twice() -> None:
    """A tighter limit on trial looks at the same usage; only the enforced rule spends it."""
    engine = Clocked(START_US)
    shared = {"by": "user", "counter": "login"}
    rules = [
        {"name": "enforced", "limit": "5/minute"} | shared,
        {"name": "trial", "limit": "3/minute", "action": "shadow"} | shared,
    ]
    engine.engine.load_rules(json.dumps({"rules": rules}))
    assert [bool(engine.engine.check(user="u")) for _ in range(6)] == [True] * 5 + [False]
