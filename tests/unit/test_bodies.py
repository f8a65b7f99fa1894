"""What a refused client is told (SEMANTICS 1.2 and 6.1, REQUIREMENTS J2)."""

from __future__ import annotations

import json
import math

from tests.answers import engine_with, fields, headers, refused, rule

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"


def test_the_body_is_small_and_says_the_same() -> None:
    engine, _ = engine_with(rule())
    decision = refused(engine)
    body = decision.body(jitter=0.0)
    assert body["error"] == "Rate limit exceeded"
    assert body["retry_after"] == 60
    json.dumps(body)


def test_problem_details_name_the_violated_policies() -> None:
    engine, _ = engine_with(rule(name="a"), rule("1000/minute", name="b", by="user"))
    decision = refused(engine, user="u")
    problem = decision.body(problem=True, jitter=0.0)
    assert problem["type"] == QUOTA_EXCEEDED
    assert problem["status"] == 429
    assert problem["title"]
    assert problem["violated-policies"] == ["a"]
    policies = fields(headers(decision, families=("ietf",))["ratelimit-policy"])
    assert set(problem["violated-policies"]) <= set(policies), "a policy is named as in RateLimit-Policy"


def test_a_rules_own_status_message_and_time_are_used() -> None:
    response = {"status": 503, "message": "come back later", "retry_after": 17}
    engine, _ = engine_with(rule(response=response))
    decision = refused(engine)
    assert decision.status == 503
    assert decision.body(jitter=0.0) == {"error": "come back later", "retry_after": 17} | decision.body(jitter=0.0)
    assert headers(decision, jitter=0.0)["retry-after"] == "17"
    assert decision.body(problem=True)["status"] == 503


def test_a_block_without_an_end_names_no_time() -> None:
    engine, _ = engine_with({"name": "no", "action": "block", "match": {"user": "bad"}})
    decision = engine.check(user="bad")
    assert not decision
    assert decision.status == 403
    assert decision.retry_after is None
    assert "retry-after" not in headers(decision)
    assert decision.body().get("retry_after") is None
    assert decision.body(problem=True)["status"] == 403


def test_a_block_with_an_end_names_it() -> None:
    engine, clock = engine_with(
        {"name": "no", "action": "block", "match": {"user": "bad"}, "until": "2026-01-01T00:00:00Z"}
    )
    decision = engine.check(user="bad")
    waits = int(headers(decision, jitter=0.0)["retry-after"])
    assert decision.retry_after is not None
    assert waits == math.ceil(decision.retry_after)
    clock.advance(waits)
    assert engine.check(user="bad"), "the block has ended"


def test_a_cost_that_can_never_fit_names_no_time() -> None:
    engine, _ = engine_with(rule())
    decision = engine.check(cost=6)
    assert not decision
    assert decision.retry_after is None
    found = headers(decision)
    assert "retry-after" not in found
    assert "x-ratelimit-retry-after" not in found
    assert decision.body().get("retry_after") is None
