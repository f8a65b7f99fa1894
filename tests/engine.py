"""The engine, driven on a clock of the test's own, in the same steps as the models."""

from __future__ import annotations

import json
from typing import Any

from headgate._core import Decision, Engine, FakeClock, LimitResult
from tests.model.limits import SECOND_US, Limit, Result
from tests.vectors.format import Expect, Step


def to_us(seconds: float) -> int:
    return round(seconds * SECOND_US)


def limit_text(limit: Limit) -> str:
    """As a rule would write it; windows are whole milliseconds."""
    if limit.window_us % 1_000:
        raise ValueError(f"a rule's window is a whole number of milliseconds, not {limit.window_us} µs")
    burst = "" if limit.burst is None else f" burst {limit.burst}"
    return f"{limit.count}/{limit.window_us // 1_000}ms{burst}"


def rule(name: str, limit: Limit, **fields: Any) -> dict[str, Any]:
    return {"name": name, "by": "global", "algorithm": limit.algorithm, "limit": limit_text(limit)} | fields


def result(of: Decision | LimitResult) -> Result:
    assert of.remaining is not None
    assert of.reset_after is not None
    retry_after_us = None if of.retry_after is None else to_us(of.retry_after)
    return Result(of.allowed, of.remaining, retry_after_us, to_us(of.reset_after))


class Clocked:
    """An engine whose clock is set to a time rather than moved by one."""

    def __init__(self, start_us: int, **options: Any) -> None:
        self.clock = FakeClock(start_us / SECOND_US)
        self.engine = Engine(clock=self.clock, **options)

    def at(self, now_us: int) -> None:
        if now_us > self.clock.now_us():
            self.clock.advance((now_us - self.clock.now_us()) / SECOND_US)
        assert self.clock.now_us() == now_us


class SubjectUnderTest(Clocked):
    """One rule with one limit, counted globally: so that even the window may change and the counter stays."""

    def __init__(self, limit: Limit, start_us: int, **options: Any) -> None:
        super().__init__(start_us, **options)
        self.decisions: list[Decision | None] = []
        self.change(limit)

    def change(self, limit: Limit) -> None:
        self.engine.put_rule(json.dumps(rule("r", limit)))

    def check(self, cost: int, now_us: int) -> Result:
        self.at(now_us)
        return result(self.engine.check(cost=cost))

    def peek(self, cost: int, now_us: int) -> Result:
        self.at(now_us)
        return result(self.engine.peek(cost=cost))

    def play(self, step: Step) -> Expect:
        self.at(step["at_us"])
        if step["op"] in ("refund", "commit"):
            self.decisions.append(None)
            return {"returned": self._settle(step)}
        decision = (self.engine.check if step["op"] == "check" else self.engine.peek)(cost=step["cost"])
        self.decisions.append(decision)
        answer = result(decision)
        return {
            "allowed": answer.allowed,
            "remaining": answer.remaining,
            "retry_after_us": answer.retry_after_us,
            "reset_after_us": answer.reset_after_us,
        }

    def _settle(self, step: Step) -> int:
        decision = self.decisions[step["of"]]
        assert decision is not None
        if step["op"] == "refund":
            return self.engine.refund(decision, step.get("amount"))
        return self.engine.commit(decision, step["actual"])
