"""The naive scan is held against cases decided by hand (SEMANTICS 1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.paths import Pattern, normalise
from tests.model.rules import Request, select


def rule(name: str, by: str | list[str] = "user", **fields: Any) -> dict[str, Any]:
    return {"name": name, "by": by, "limit": "5/minute"} | fields


def alone(name: str, action: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "action": action} | fields


@pytest.mark.parametrize(
    ("spelling", "normal"),
    [
        ("", "/"),
        ("//a///b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/../../a", "/a"),
        ("/%61%2Fb?q#f", "/a/b"),
        ("/A", "/A"),
        ("/%2541", "/%2541"),
        ("/100%", "/100%25"),
        ("/%3f%23", "/%3F%23"),
        ("/%ff", "/%FF"),
        ("/%C3%A9", "/é"),
        ("/a/%2e%2E/b", "/b"),
        ("/a%0a", "/a"),
        ("/a/b/..%0A\n", "/a"),
        ("/a%0A/b", "/a%0A/b"),
    ],
)
def test_a_path_has_one_spelling(spelling: str, normal: str) -> None:
    assert normalise(spelling) == normal == normalise(normal)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a", "/a", True),
        ("/a", "/a/b", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", True),
        ("/a/*", "/a", False),
        ("/a/*", "/ab", False),
        ("/*", "/", True),
        ("/*", "/x/y", True),
        ("/a/{x}", "/a/b", True),
        ("/a/{x}", "/a", False),
        ("/a/{x}", "/a/b/c", False),
        ("/", "/", True),
    ],
)
def test_patterns_match_what_they_say(pattern: str, path: str, matches: bool) -> None:
    assert Pattern(pattern).matches(path) == matches


def test_exact_beats_parameters_beats_star_and_longer_beats_shorter() -> None:
    rising = ["/*", "/a/*", "/a/bb/*", "/{x}", "/a/{x}", "/abc/{x}", "/", "/a", "/a/b"]
    assert sorted(rising, key=lambda text: Pattern(text).specificity) == rising


def test_same_by_competes_and_different_by_composes() -> None:
    rules = [rule("a"), rule("b", match={"tier": "free"}), rule("c", "org"), rule("d", ["org", "user"])]
    found = select(rules, [], Request(user="u", org="o"))
    assert found.limits == {"b", "c", "d"}


def test_priority_beats_specificity_beats_name() -> None:
    request = Request(user="u", path="/x")
    assert select([rule("b", priority=101), rule("a", match={"user": "u"})], [], request).limits == {"b"}
    assert select([rule("a"), rule("b", match={"user": "u"})], [], request).limits == {"b"}
    assert select([rule("b"), rule("a")], [], request).limits == {"a"}


def test_facts_are_weighed_in_their_order() -> None:
    ranked = [
        {"user": "u"},
        {"api_key": "k"},
        {"org": "o"},
        {"ip": "198.51.100.0/24"},
        {"ip": "0.0.0.0/0"},
        {"endpoint": "/x"},
        {"endpoint": "/*"},
        {"method": "GET"},
        {"region": "eu"},
        {"descriptors": {"a": "1", "b": "2"}},
        {"descriptors": {"a": "1"}},
        {"tier": "free"},
        {},
    ]
    request = Request("u", "k", "o", "198.51.100.7", None, "get", "/x", "eu", descriptors={"a": "1", "b": "2"})
    for position in range(len(ranked) - 1):
        # The less specific one has the better name, so only specificity can explain the outcome.
        rules = [rule("a", match=ranked[position + 1]), rule("z", match=ranked[position])]
        assert select(rules, [], request).limits == {"z"}, ranked[position]


def test_block_and_allow_decide_before_limits() -> None:
    request = Request(user="u")
    rules = [rule("limit"), alone("no", "block"), alone("yes", "allow")]
    found = select(rules, [], request)
    assert (found.decided_by, found.action, found.limits) == ("no", "block", frozenset())
    found = select([*rules, alone("vip", "allow", priority=200)], [], request)
    assert found.decided_by == "vip"
    found = select([alone("vip", "allow", priority=200)], [{"user": "u", "block": True}], request)
    assert found.decided_by == "override-block:user:u", "an operator's block comes first"


def test_shadow_rules_compete_among_themselves() -> None:
    rules = [rule("a"), rule("b", action="shadow"), rule("c", action="shadow", match={"tier": "free"})]
    found = select(rules, [], Request(user="u"))
    assert found.limits == {"a"}
    assert found.shadows == {"c"}


def test_a_missing_user_counts_by_ip_and_other_missing_facts_skip_the_rule() -> None:
    rules = [rule("u"), rule("o", "org"), rule("e", "endpoint"), rule("off", "ip", enabled=False)]
    found = select(rules, [], Request(ip="198.51.100.7", path="/a//b"))
    assert found.limits == {"u", "e"}
    assert found.skipped == {"o"}
    assert found.subjects == {"u": (("ip", "198.51.100.7"),), "e": (("endpoint", "/a/b"),)}
    assert select(rules, [], Request()).subjects == {"u": (("anonymous", ""),)}


def test_the_endpoint_is_the_most_specific_pattern_of_any_enabled_rule() -> None:
    rules = [
        rule("e", "endpoint"),
        rule("other", match={"endpoint": "/users/{id}", "tier": "gold"}),
        rule("off", match={"endpoint": "/users/me"}, enabled=False),
    ]
    assert select(rules, [], Request(path="/users/me")).endpoint == "/users/{id}"
    assert select(rules[:1], [], Request(path="/users/me/")).endpoint == "/users/me"


def test_the_tier_is_the_users_override_then_the_keys_then_the_claim_then_free() -> None:
    overrides = [{"user": "u", "tier": "gold"}, {"api_key": "k", "tier": "silver"}]
    assert select([], overrides, Request(user="u", api_key="k", tier="x")).tier == "gold"
    assert select([], overrides, Request(api_key="k", tier="x")).tier == "silver"
    assert select([], overrides, Request(tier="x")).tier == "x"
    assert select([], overrides, Request()).tier == "free"
