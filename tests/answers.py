"""What the tests of answers share: an engine with a few rules, and parsers that are not ours."""

from __future__ import annotations

import json
from typing import Any

from http_sfv.list import List

from headgate._core import Decision, Engine, FakeClock

START_S = 1_760_000_000.0


def engine_with(*rules: dict[str, Any], start: float = START_S) -> tuple[Engine, FakeClock]:
    clock = FakeClock(start)
    engine = Engine(clock=clock)
    engine.load_rules(json.dumps({"rules": list(rules)}))
    return engine, clock


def rule(limit: Any = "5/minute", name: str = "login", **fields: Any) -> dict[str, Any]:
    return {"name": name, "by": "global", "limit": limit} | fields


def headers(decision: Decision, **options: Any) -> dict[str, str]:
    """Field names are case-insensitive."""
    found = decision.headers(**options)
    lowered = {name.lower(): value for name, value in found.items()}
    assert len(lowered) == len(found)
    return lowered


def fields(text: str) -> dict[str, dict[str, Any]]:
    """A list of strings with parameters, as an independent parser reads it."""
    parsed = List()
    parsed.parse(text.encode("ascii"))
    return {str(item.value): dict(item.params) for item in parsed}


def refused(engine: Engine, **facts: Any) -> Decision:
    for _ in range(10_000):
        decision = engine.check(**facts)
        if not decision:
            return decision
    raise AssertionError("nothing was refused")
