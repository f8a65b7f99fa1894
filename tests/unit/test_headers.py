"""What the client sees (SEMANTICS 6, REQUIREMENTS J): read back by parsers that are not ours."""

from __future__ import annotations

import json
import math

import pytest

from headgate._core import Engine, FakeClock
from tests.answers import START_S, engine_with, fields, headers, refused, rule

IETF, X = ("ietf",), ("x-ratelimit",)


def test_an_allowed_request_is_told_what_is_left() -> None:
    engine, _ = engine_with(rule())
    engine.check()
    found = headers(engine.check(), families=X)
    assert found["x-ratelimit-limit"] == "5"
    assert found["x-ratelimit-remaining"] == "3"
    assert found["x-ratelimit-reset"] == "60"
    assert "retry-after" not in found
    assert "x-ratelimit-retry-after" not in found
    assert not any(name.startswith("ratelimit") for name in found)


def test_a_refusal_names_its_time_in_every_family() -> None:
    engine, clock = engine_with(rule())
    decision = refused(engine)
    clock.advance(10.5)
    decision = engine.check()
    found = headers(decision, jitter=0.0)
    assert found["retry-after"] == found["x-ratelimit-retry-after"] == "50"
    assert found["x-ratelimit-reset"] == "50"
    assert found["x-ratelimit-remaining"] == "0"
    assert fields(found["ratelimit"])["login"]["r"] == 0


def test_families_are_chosen() -> None:
    engine, _ = engine_with(rule())
    decision = refused(engine)
    assert set(headers(decision, families=IETF)) == {"ratelimit", "ratelimit-policy", "retry-after"}
    plain = {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-retry-after"}
    assert set(headers(decision, families=X)) == plain | {"retry-after"}
    assert set(headers(decision, families=())) == {"retry-after"}
    with pytest.raises(ValueError, match="famil"):
        decision.headers(families=("nonsense",))
    with pytest.raises(ValueError, match="draft"):
        decision.headers(draft=7)


def test_policies_say_quota_and_window_of_every_limit() -> None:
    engine, _ = engine_with(rule(["100/second burst 200", "50000/hour"], "org"), rule(name="user"))
    found = fields(headers(engine.check(), families=IETF)["ratelimit-policy"])
    shapes = sorted((params["q"], params["w"]) for params in found.values())
    assert (5, 60) in shapes or (50_000, 3_600) in shapes
    for params in found.values():
        assert type(params["q"]) is int
        assert type(params["w"]) is int


@pytest.mark.parametrize("draft", [10, 11])
@pytest.mark.parametrize("limit", ["5/minute", "1/second burst 3", "100/hour", "7/10s"])
@pytest.mark.parametrize("wait_s", [0.0, 0.3, 1.0, 2.999999])
def test_t_is_true_and_never_later_than_retry_after(draft: int, limit: str, wait_s: float) -> None:
    """Draft 10: seconds, rounded up, until more is there. Draft 11: the effective window, rounded down."""
    engine, clock = engine_with(rule(limit))
    decision = refused(engine)
    clock.advance(wait_s)
    decision = engine.check()
    if decision.allowed:
        return
    assert decision.retry_after is not None
    found = headers(decision, families=IETF, draft=draft)
    t = fields(found["ratelimit"])["login"].get("t")
    rounded = math.ceil(decision.retry_after) if draft == 10 else math.floor(decision.retry_after)
    assert t == rounded or (t is None and rounded == 0)
    assert int(found["retry-after"]) >= (t or 0)


def test_t_of_an_allowed_request_is_when_more_comes_back() -> None:
    engine, clock = engine_with(rule("5/minute"))
    engine.check()
    clock.advance(20.5)
    found = headers(engine.check(), families=IETF, draft=10)
    assert fields(found["ratelimit"])["login"] == {"r": 3, "t": 40}
    found = headers(engine.peek(cost=0), families=IETF, draft=11)
    assert fields(found["ratelimit"])["login"] == {"r": 3, "t": 39}


def test_an_untouched_limit_has_no_time_to_wait_for() -> None:
    engine, _ = engine_with(rule())
    found = fields(headers(engine.peek(cost=0), families=IETF)["ratelimit"])
    assert found["login"]["r"] == 5
    assert found["login"].get("t", 0) == 0


@pytest.mark.parametrize(("limit", "floor"), [("5/minute", 60), ("5/hour", 3_600), ("5/1500ms", 2), ("5/250ms", 1)])
def test_jitter_only_adds_and_a_tenth_at_most(limit: str, floor: int) -> None:
    seen = set()
    for user in range(200):
        engine, _ = engine_with({"name": "r", "by": "user", "limit": limit})
        decision = refused(engine, user=user)
        waits = int(headers(decision)["retry-after"])
        assert floor <= waits <= max(floor + 1, math.ceil(floor * 1.1))
        assert headers(decision)["retry-after"] == str(waits), "one decision, one number"
        assert decision.body()["retry_after"] == waits == decision.body(problem=True).get("retry_after", waits)
        assert headers(decision, jitter=0.0)["retry-after"] == str(floor)
        seen.add(waits)
    assert len(seen) > 1, "clients must not all come back together"


@pytest.mark.parametrize("wait_us", [1, 999_999, 1_000_000, 1_000_001, 58_999_999])
def test_retry_after_rounds_up_so_that_waiting_is_enough(wait_us: int) -> None:
    engine, clock = engine_with(rule())
    refused(engine)
    clock.advance(60 - wait_us / 1_000_000)
    waits = int(headers(engine.check(), jitter=0.0)["retry-after"])
    assert waits == math.ceil(wait_us / 1_000_000)
    clock.advance(waits)
    assert engine.check()


def test_hidden_remaining_is_hidden_everywhere() -> None:
    engine, _ = engine_with(rule(response={"hide_remaining": True}))
    for decision in (engine.check(), refused(engine)):
        found = headers(decision)
        assert "x-ratelimit-remaining" not in found
        assert "login" not in fields(found["ratelimit"]) if "ratelimit" in found else True
        assert found["x-ratelimit-limit"] == "5"
        assert fields(found["ratelimit-policy"])["login"]["q"] == 5


NAMES = [
    'say "hi"',
    "back\\slash",
    "comma, semi; equals=",
    "naïve-é",
    "日本",
    "a" * 128,
    "%41",
    "  spaced  ",
    "tab",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_rule_name_gives_fields_that_parse(name: str) -> None:
    engine, _ = engine_with(rule(name=name), rule("7/hour", name="second", by="user"))
    decision = refused(engine, user="u")
    for draft in (10, 11):
        found = headers(decision, draft=draft)
        policies, now = fields(found["ratelimit-policy"]), fields(found["ratelimit"])
        assert len(policies) == 2
        assert set(now) <= set(policies)
        for value in found.values():
            assert value.isascii()
            assert value.isprintable()
        if name.isascii() and "%" not in name:
            assert name in policies
    json.dumps(decision.body(problem=True))


def test_names_that_differ_stay_different_in_the_fields() -> None:
    names = ["é", "è", "%C3%A9", "e"]
    rules = [rule(name=name, by=f"d{number}") for number, name in enumerate(names)]
    engine, _ = engine_with(*rules)
    decision = engine.check(descriptors={f"d{number}": "x" for number in range(len(names))})
    assert len(fields(headers(decision)["ratelimit-policy"])) == len(names)


def test_no_limit_no_headers() -> None:
    engine, _ = engine_with({"name": "yes", "action": "allow", "match": {"user": "good"}})
    for decision in (engine.check(user="good"), engine.check(user="other")):
        assert decision.allowed
        assert headers(decision) == {}


def test_shadow_limits_are_never_shown() -> None:
    engine, _ = engine_with(rule("1/minute", name="trial", action="shadow"), rule(by="user"))
    for _ in range(3):
        decision = engine.check(user="u")
    assert decision.allowed
    found = headers(decision)
    assert "trial" not in json.dumps(found)
    assert found["x-ratelimit-limit"] == "5"


def test_the_plain_call_has_headers_too() -> None:
    engine = Engine(clock=FakeClock(START_S))
    engine.check_limit("k", 1, 60)
    decision = engine.check_limit("k", 1, 60)
    found = headers(decision, jitter=0.0)
    assert found["retry-after"] == "60"
    assert len(fields(found["ratelimit-policy"])) == 1
