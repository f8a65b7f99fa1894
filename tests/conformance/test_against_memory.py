"""Whatever is done to it, a shared store answers exactly as counters in memory do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from headgate import Limiter
from headgate._core import Decision
from headgate.testing import FakeClock
from tests.conformance.histories import VERBS, History, Step, examples, histories
from tests.conformance.stores import Store
from tests.model.limits import SECOND_US
from tests.properties.strategies import START_US


class Player:
    """A limiter that does the steps of a history and says what a caller would notice."""

    def __init__(self, limiter: Limiter, tell: Callable[[Decision], dict[str, Any]]) -> None:
        self.limiter = limiter
        self.tell = tell
        self.decisions: list[Decision] = []

    @property
    def last(self) -> Decision | None:
        return self.decisions[-1] if self.decisions else None

    def play(self, step: Step, cost: int) -> Any:
        match step.verb:
            case "check" | "peek":
                ask = self.limiter.check if step.verb == "check" else self.limiter.peek
                self.decisions.append(ask(cost=cost, **step.facts))
                return self.tell(self.decisions[-1])
            case "change":
                return self.limiter.put_rule(json.dumps(step.change))
            case "reset":
                # How many counters that was depends on what is remembered of those already out of use.
                self.limiter.reset(**step.facts)
                return None
            case _ if not self.decisions:
                return None
            case _:
                return self._settle(step, self.decisions[-step.of :][0], cost)

    def _settle(self, step: Step, decision: Decision, cost: int) -> int | str:
        try:
            if step.verb == "refund":
                return self.limiter.refund(decision, cost or None)
            return self.limiter.commit(decision, cost)
        except RuntimeError as error:
            return str(error)


def told(decision: Decision) -> dict[str, Any]:
    return {
        "allowed": decision.allowed,
        "rule": decision.rule,
        "path": decision.path,
        "status": decision.status,
        "remaining": decision.remaining,
        "retry_after": decision.retry_after,
        "reset_after": decision.reset_after,
        "skipped": decision.skipped,
        "results": {
            (item.rule, item.label): (item.allowed, item.shadow, item.remaining, item.retry_after, item.reset_after)
            for item in decision.results
        },
    }


def told_by_several(decision: Decision) -> dict[str, Any]:
    """What one server spent on a request that another refused is returned a moment later (SEMANTICS 3.3), so the wait
    until nothing is in use is not yet known of the limits that allowed."""
    answer = told(decision)
    if not decision.allowed:
        answer["results"] = {name: item[:-1] if item[0] else item for name, item in answer["results"].items()}
    return answer


def compare(store: Store, history: History) -> None:
    store.flush()
    clock = FakeClock(START_US / SECOND_US)
    tell = told if store.holds_all_in_one_place else told_by_several
    memory = Player(Limiter(history.rules, clock=clock), tell)
    shared = Player(store.limiter(history.rules, clock=clock), tell)
    for number, step in enumerate(history.steps):
        clock.advance(step.wait_us(memory.last) / SECOND_US)
        cost = step.cost(memory.last)
        expected, got = memory.play(step, cost), shared.play(step, cost)
        assert got == expected, f"step {number}, cost {cost}: {step}"


@examples(150)
@given(history=histories())
def test_one_server_answers_as_memory_does(valkey_store: Store, history: History) -> None:
    compare(valkey_store, history)


# What was spent and returned has left its trace in a counter: when it was last touched. That shows where a group has
# more than one hit, and where another window or algorithm takes the usage over; both then err towards refusing.
@examples(60)
@given(history=histories(count_max=32, verbs=VERBS))
@pytest.mark.parametrize("name", ["cluster", "ring"])
def test_many_servers_answer_as_memory_does(name: str, request: pytest.FixtureRequest, history: History) -> None:
    compare(request.getfixturevalue(f"{name}_store"), history)
