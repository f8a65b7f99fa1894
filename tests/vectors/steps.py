"""Steps as a person writes them: seconds after the start, then the answer."""

from __future__ import annotations

from tests.model.limits import SECOND_US
from tests.vectors.format import Op, Step, Vector

START_US = 1_760_000_040 * SECOND_US  # a whole minute since the epoch
NEVER = None


def check(
    at_s: float,
    cost: int,
    allowed: bool,
    remaining: int,
    retry_s: float | None,
    reset_s: float,
    op: Op = "check",
    **limit: int,
) -> Step:
    step: Step = {
        "at_us": START_US + _us(at_s),
        "op": op,
        "cost": cost,
        "expect": {
            "allowed": allowed,
            "remaining": remaining,
            "retry_after_us": None if retry_s is None else _us(retry_s),
            "reset_after_us": _us(reset_s),
        },
    }
    if "count" in limit:
        step["count"] = limit["count"]
    if "window_us" in limit:
        step["window_us"] = limit["window_us"]
    if "burst" in limit:
        step["burst"] = limit["burst"]
    return step


def peek(
    at_s: float, cost: int, allowed: bool, remaining: int, retry_s: float | None, reset_s: float, **limit: int
) -> Step:
    return check(at_s, cost, allowed, remaining, retry_s, reset_s, "peek", **limit)


def refund(at_s: float, of: int, returned: int, amount: int | None = None) -> Step:
    step: Step = {"at_us": START_US + _us(at_s), "op": "refund", "of": of, "expect": {"returned": returned}}
    if amount is not None:
        step["amount"] = amount
    return step


def commit(at_s: float, of: int, actual: int, returned: int) -> Step:
    return {
        "at_us": START_US + _us(at_s),
        "op": "commit",
        "of": of,
        "actual": actual,
        "expect": {"returned": returned},
    }


def vector(
    name: str, algorithm: str, count: int, window_us: int, steps: list[Step], burst: int | None = None
) -> Vector:
    return {
        "name": name,
        "algorithm": algorithm,
        "count": count,
        "window_us": window_us,
        "burst": burst,
        "start_us": START_US,
        "steps": steps,
    }


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)
