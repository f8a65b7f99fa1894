"""The shipped JSON Schema: complete for editors, and of one mind with the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from headgate import _core
from headgate.model import find_mistakes, read_document, schema_text
from headgate.upkeep.rules_file import STARTER_FILE

SCHEMA: dict[str, Any] = json.loads(schema_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def rule(**fields: Any) -> dict[str, Any]:
    whole = {"name": "a", "by": "user", "limit": "5/minute"} | fields
    return {"rules": [{key: value for key, value in whole.items() if value is not ...}]}


def block(**fields: Any) -> dict[str, Any]:
    return rule(action="block", by=..., limit=..., **fields)


def whole(entries: Any = ({"key": "a"},), **fields: Any) -> dict[str, Any]:
    match = {"descriptor_exact": {"domain": "d", "entries": list(entries)}}
    return rule(**({"by": ..., "match": match} | fields))


def override(**fields: Any) -> dict[str, Any]:
    return {"overrides": [fields]}


GOOD: list[dict[str, Any]] = [
    {"rules": []},
    {"rules": [], "tiers": ["free"], "overrides": []},
    {"rules": None, "tiers": "free"},
    rule(name=7),
    rule(by=["user", "user"]),
    rule(match={"tier": 3, "descriptors": {"a b": 1}}),
    rule(),
    rule(limit="100/second burst 200"),
    rule(limit="10 per 30s"),
    rule(limit="10 per30s"),
    rule(limit="5/minute;100/hour"),
    rule(limit=" 1_000 / 5 MINUTES , 3/250ms"),
    rule(limit=["5/minute", "100/hour burst 7"]),
    rule(limit=[{"limit": "5/minute", "label": "m"}, {"limit": "9/hour", "algorithm": "fixed_window"}]),
    *[rule(algorithm=name) for name in SCHEMA["$defs"]["algorithm"]["enum"]],
    *[rule(by=name) for name in ("api_key", "org", "ip", "endpoint", "global", "tier", "method", "region", "plan")],
    rule(by=["user", "endpoint", "plan"]),
    rule(match={}),
    rule(match={"tier": "free", "endpoint": "/a/{x}/*", "method": "POST", "ip": "10.0.0.0/8", "region": "eu"}),
    rule(match={"user": 42, "org": ["a", 7], "api_key": "k", "ip": ["::1", "2001:db8::/32"]}),
    rule(match={"descriptors": {"plan": "trial", "kind": ["a", "b"]}}),
    whole(),
    whole(entries=[{"key": 7, "value": 8}, {"key": "b*", "shared": True}, {"key": "c", "value": "d*", "shared": True}]),
    whole(replaces=["b", "c"]),
    whole(replaces="b", action="block", limit=..., until="2030-01-31T12:00:00Z"),
    whole(action="allow", limit=...),
    rule(action="shadow"),
    rule(action="throttle", priority=-1_000_000, enabled=False, group="g", counter="c", description="d"),
    rule(**{"class": "abuse"}, on_store_failure="closed", precision="lease"),
    rule(response={"status": 503, "message": "later", "retry_after": 30, "hide_remaining": True}),
    block(),
    block(until="2030-01-31T12:00:00Z"),
    block(until="2030-01-31T12:00:00.5+02:00", match={"user": 1}),
    rule(action="allow", by=..., limit=..., match={"ip": "10.0.0.1"}),
    override(user=42, tier="premium"),
    override(org="7", limit="5/minute", algorithm="gcra", counter="login", description="d"),
    override(api_key="k", block=True),
    override(user="u", block={"reason": "abuse", "until": "2030-01-31T12:00:00Z"}),
]

BAD: list[dict[str, Any]] = [
    {"rulez": []},
    {"rules": {}},
    {"rules": [3]},
    {"tiers": 1.5},
    {"tiers": []},
    rule(name=...),
    rule(name=""),
    rule(name="x" * 129),
    rule(name="a\nb"),
    rule(name=7.5),
    rule(name="override:user:7"),
    rule(description=5),
    rule(by=["global", "user"]),
    rule(by=...),
    rule(by=[]),
    rule(limit=...),
    rule(limit=5),
    rule(limit=""),
    rule(limit="5"),
    rule(limit="five/minute"),
    rule(limit="5/minute burst"),
    rule(limit="5/minute please"),
    rule(limit="5/minute;"),
    rule(limit="-5/minute"),
    rule(limit="0/minute"),
    rule(limit="5 permin"),
    rule(limit=[]),
    rule(limit=[{"label": "m"}]),
    rule(limit=[{"limit": "5/minute", "size": 3}]),
    rule(algorithm="magic"),
    rule(action="explode"),
    rule(action="queue"),
    rule(priority=1_000_001),
    rule(priority="high"),
    rule(priority=1.5),
    rule(enabled="yes"),
    rule(match={"planet": "mars"}),
    rule(match={"tier": 3.5}),
    rule(match=[]),
    rule(match={"tier": []}),
    rule(match={"tier": ""}),
    rule(match={"endpoint": "login"}),
    rule(match={"descriptors": ["plan"]}),
    rule(replaces="b"),
    whole(replaces=[]),
    whole(by="user"),
    whole(limit=...),
    whole(match={"descriptor_exact": {"domain": "d", "entries": [{"key": "a"}]}, "user": "7"}),
    whole(match={"descriptor_exact": {"entries": [{"key": "a"}]}}),
    whole(match={"descriptor_exact": {"domain": "d"}}),
    whole(entries=[]),
    whole(entries=[{"key": "a"}] * 33),
    whole(entries=[{"value": "a"}]),
    whole(entries=[{"key": "a", "value": ""}]),
    whole(entries=[{"key": "a", "values": "b"}]),
    whole(entries=[{"key": "a", "value": "b", "shared": True}]),
    whole(entries=[{"key": "a*", "value": "b", "shared": True}]),
    whole(entries=[{"key": "a", "value": "b*", "shared": "yes"}]),
    rule(response={"status": 200}),
    rule(response={"status": 600}),
    rule(response={"retry_after": 0}),
    rule(response={"retry_after": 1.5}),
    rule(response={"colour": "red"}),
    rule(**{"class": "vip"}),
    rule(on_store_failure="maybe"),
    rule(precision="rough"),
    rule(until="2030-01-31T12:00:00Z"),
    rule(speed=3),
    block(until="tomorrow"),
    block(until="2030-01-31T12:00:00"),
    rule(action="block"),
    rule(action="allow"),
    rule(action="allow", by=..., limit=..., until="2030-01-31T12:00:00Z"),
    override(tier="free"),
    override(user="a"),
    override(user="a", tier="free", counter="c"),
    override(user="a", org="b", tier="free"),
    override(user="a", limit="often"),
    override(user="a", block=False),
    override(user="a", block={"why": "x"}),
    override(user="a", tier="free", colour="red"),
]


@pytest.mark.parametrize("document", GOOD, ids=json.dumps)
def test_what_the_engine_takes_the_schema_takes(document: dict[str, Any]) -> None:
    assert _core.validate_rules(json.dumps(document)) == []
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize("document", BAD, ids=json.dumps)
def test_what_the_engine_refuses_the_schema_refuses(document: dict[str, Any]) -> None:
    assert _core.validate_rules(json.dumps(document)) != []
    assert not VALIDATOR.is_valid(document)


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "properties":
                yield from value.items()
            if name not in ("if", "then", "else"):
                yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)


def test_every_property_is_described_for_editors() -> None:
    found = list(properties(SCHEMA))
    assert len(found) > 40
    for name, value in found:
        target = SCHEMA["$defs"][value["$ref"].rpartition("/")[2]] if "$ref" in value else {}
        assert value.get("description") or target.get("description"), name


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_starter_rules_are_good_rules() -> None:
    count, mistakes = find_mistakes(STARTER_FILE)
    assert (count, mistakes) == (4, [])
    assert VALIDATOR.is_valid(json.loads(read_document(STARTER_FILE).json))
