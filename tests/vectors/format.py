"""The shape of a vector, and how the model plays one. README.md says what each field means."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from tests.model.algorithms import Counter, counter
from tests.model.limits import Charge, Limit

Op = Literal["check", "peek", "refund", "commit"]


class Expect(TypedDict, total=False):
    allowed: bool
    remaining: int
    retry_after_us: int | None
    reset_after_us: int
    returned: int


class Step(TypedDict):
    at_us: int
    op: Op
    cost: NotRequired[int]
    of: NotRequired[int]
    amount: NotRequired[int]
    actual: NotRequired[int]
    count: NotRequired[int]
    window_us: NotRequired[int]
    burst: NotRequired[int | None]
    expect: NotRequired[Expect]


class Vector(TypedDict):
    name: str
    algorithm: str
    count: int
    window_us: int
    burst: int | None
    start_us: int
    steps: list[Step]


def first_limit(vector: Vector) -> Limit:
    return Limit(vector["algorithm"], vector["count"], vector["window_us"], vector["burst"])


def limit_from(step: Step, before: Limit) -> Limit:
    """The limit from this step on."""
    return Limit(
        before.algorithm,
        step.get("count", before.count),
        step.get("window_us", before.window_us),
        step.get("burst", before.burst),
    )


class Player:
    """The model, playing one vector step by step."""

    def __init__(self, limit: Limit) -> None:
        self.counter: Counter = counter(limit)
        self.charges: list[Charge | None] = []

    def play(self, step: Step) -> Expect:
        self.counter.limit = limit_from(step, self.counter.limit)
        charge: Charge | None = None
        now_us = step["at_us"]
        if step["op"] == "refund":
            expect: Expect = {"returned": self._refund(step["of"], step.get("amount"), now_us)}
        elif step["op"] == "commit":
            expect = {"returned": self._commit(step["of"], step["actual"], now_us)}
        else:
            if step["op"] == "peek":
                answer = self.counter.peek(step["cost"], now_us)
            else:
                answer, charge = self.counter.decide(step["cost"], now_us)
            expect = {
                "allowed": answer.allowed,
                "remaining": answer.remaining,
                "retry_after_us": answer.retry_after_us,
                "reset_after_us": answer.reset_after_us,
            }
        self.charges.append(charge)
        return expect

    def _refund(self, of: int, amount: int | None, now_us: int) -> int:
        charge = self.charges[of]
        if charge is None:
            return 0
        return self.counter.refund(charge, charge.cost if amount is None else amount, now_us)

    def _commit(self, of: int, actual: int, now_us: int) -> int:
        charge = self.charges[of]
        if charge is None:
            return 0
        if actual > charge.cost:
            self.counter.spend(actual - charge.cost, now_us)
            return 0
        return self.counter.refund(charge, charge.cost - actual, now_us)
