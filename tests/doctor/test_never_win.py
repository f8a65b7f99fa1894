"""The usual ways to hide a rule are seen, and nothing is said that is not certain."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.doctor.judge import never_win
from headgate.doctor.judge.never_win import find_never_winning
from tests.model.rules import RuleDoc


def limit(name: str, match: dict[str, Any], by: Any = "user", **more: Any) -> dict[str, Any]:
    return {"name": name, "match": match, "by": by, "limit": "5/minute", **more}


def never(*rules: RuleDoc, overrides: tuple[RuleDoc, ...] = ()) -> dict[str, tuple[str, ...]]:
    found = find_never_winning(rules, overrides)
    assert found.looked_at == found.rules
    return {shadowed.name: shadowed.winners for shadowed in found.never_win}


def whole(name: str, *entries: dict[str, str], domain: str = "d", **more: Any) -> dict[str, Any]:
    counted = {} if "action" in more else {"limit": "5/minute"}
    return {"name": name, "match": {"descriptor_exact": {"domain": domain, "entries": entries}}, **counted, **more}


A, AB = {"key": "a"}, {"key": "a", "value": "b"}


@pytest.mark.parametrize(
    ("rule_list", "expected"),
    [
        ([whole("a", A), whole("b", A)], {"b": ("a",)}),
        ([whole("a", A), whole("b", A, priority=101)], {"a": ("b",)}),
        ([whole("a", AB), whole("b", {"key": "a_b"})], {"b": ("a",)}),
        ([whole("a", A), whole("b", AB), whole("c", A, AB), whole("d", A, domain="e")], {}),
        ([whole("a", A), limit("b", {}, by="global"), limit("c", {}, by="a", priority=200)], {}),
        ([whole("a", A), whole("b", A, action="allow")], {"a": ("b",)}),
        ([whole("a", A), whole("b", A, action="allow"), whole("c", AB, replaces="b")], {}),
        ([whole("a", A), {"name": "shut", "action": "block"}], {"a": ("shut",)}),
    ],
)
def test_rules_for_one_whole_descriptor_compete(rule_list: list[RuleDoc], expected: dict[str, tuple[str, ...]]) -> None:
    assert never(*rule_list) == expected


@pytest.mark.parametrize(
    ("rule_list", "expected"),
    [
        ([limit("a", {}), limit("b", {})], {"b": ("a",)}),
        ([limit("a", {}), limit("b", {"tier": "free"})], {}),
        ([limit("a", {}, priority=200), limit("b", {"tier": "free"})], {"b": ("a",)}),
        ([limit("a", {}, by="org", priority=200), limit("b", {"tier": "free"})], {}),
        ([limit("a", {}, by=["org", "user"], priority=200), limit("b", {}, by=["user", "org"])], {"b": ("a",)}),
        ([limit("a", {}, priority=200, action="shadow"), limit("b", {})], {}),
        ([limit("a", {"endpoint": "/a/*"}, priority=200), limit("b", {"endpoint": "/a/b"})], {"b": ("a",)}),
        ([limit("a", {"endpoint": "/a/*"}, priority=200), limit("b", {"endpoint": "/a"})], {}),
        ([limit("a", {"endpoint": "/a/*"}, priority=200), limit("b", {"endpoint": "/a/{x}/*"})], {"b": ("a",)}),
        ([limit("a", {"endpoint": "/{x}/*"}, priority=200), limit("b", {"endpoint": "/a/*"})], {"b": ("a",)}),
        ([limit("a", {"endpoint": "/*"}, priority=200), limit("b", {"endpoint": "/"})], {"b": ("a",)}),
        ([limit("a", {"endpoint": "/*"}, priority=200), limit("b", {})], {}),
        ([limit("a", {"endpoint": "/a/{id}"}), limit("b", {"endpoint": "/a/{name}"})], {"b": ("a",)}),
        ([limit("a", {"endpoint": "/a/b"}, priority=200), limit("b", {"endpoint": "/a/{x}"})], {}),
        ([limit("a", {"ip": "10.0.0.0/8"}, priority=200), limit("b", {"ip": "10.1.0.0/16"})], {"b": ("a",)}),
        ([limit("a", {"ip": "10.0.0.0/8"}, priority=200), limit("b", {"ip": "::ffff:10.1.0.0/112"})], {"b": ("a",)}),
        ([limit("a", {"ip": "10.1.0.0/16"}, priority=200), limit("b", {"ip": "10.0.0.0/8"})], {}),
        ([limit("a", {"ip": "::/0"}, priority=200), limit("b", {"ip": "10.0.0.0/8"})], {}),
        ([limit("a", {"method": "get"}), limit("b", {"method": "GET"})], {"b": ("a",)}),
        ([limit("a", {"user": 42}), limit("b", {"user": "42"})], {"b": ("a",)}),
        ([limit("a", {"tier": ["free", "gold"]}, priority=200), limit("b", {"tier": "gold"})], {"b": ("a",)}),
        ([limit("a", {"tier": "gold"}, priority=200), limit("b", {"tier": ["free", "gold"]})], {}),
        (
            [
                limit("a", {"tier": "gold"}, priority=200),
                limit("b", {"tier": "free"}, priority=200),
                limit("c", {"tier": ["free", "gold"], "method": "GET"}),
            ],
            {"c": ("b", "a")},
        ),
        ([limit("a", {"descriptors": {"tier": "x"}}, priority=200), limit("b", {"tier": "x"})], {}),
        ([limit("a", {}, priority=200, enabled=False), limit("b", {})], {}),
        ([limit("a", {}), {"name": "open", "action": "allow"}], {"a": ("open",)}),
        ([limit("a", {}), {"name": "shut", "action": "block", "until": "2030-01-01T00:00:00Z"}], {}),
        (
            [
                {"name": "open", "match": {"ip": "10.0.0.0/8"}, "action": "allow"},
                {"name": "shut", "match": {"ip": "10.0.0.0/8"}, "action": "block"},
            ],
            {"open": ("shut",)},
        ),
        ([limit("a", {"user": "1"}, priority=101), limit("b", {"user": "1", "org": "o"})], {"b": ("a",)}),
    ],
)
def test_hidden_rules_are_found(rule_list: list[RuleDoc], expected: dict[str, tuple[str, ...]]) -> None:
    assert never(*rule_list) == expected


def test_an_override_that_a_stronger_rule_hides_is_found() -> None:
    override = {"user": "42", "limit": "9/minute"}
    assert never(limit("a", {}, priority=101), overrides=(override,)) == {"override:user:42": ("a",)}
    assert never(limit("a", {}), overrides=(override,)) == {}
    blocked = {"user": "42", "block": {"until": "2030-01-01T00:00:00Z"}}
    assert never(limit("a", {"user": "42"}), overrides=(blocked,)) == {}
    assert never(limit("a", {"user": "42"}), overrides=({"user": "42", "block": True},)) == {
        "a": ("override-block:user:42",)
    }


def test_nothing_is_said_of_rules_that_ask_for_something_unknown() -> None:
    odd = limit("a", {"moon": "full"}, priority=200)
    assert never(odd, limit("b", {"tier": "free"}), limit("c", {"moon": "full"})) == {}


def test_where_a_path_may_meet_too_many_patterns_only_the_same_pattern_counts() -> None:
    many = [limit(f"p{n:02}", {"endpoint": "/" + "/".join(["{x}"] * n) + "/*"}, by=f"d{n}") for n in range(1, 33)]
    wide, narrow = limit("a", {"endpoint": "/a/*"}, priority=200), limit("b", {"endpoint": "/a/b"})
    same = limit("c", {"endpoint": "/a/*", "tier": "free"})
    assert never(*many, wide, narrow, same) == {"c": ("a",)}
    assert never(*many[:20], wide, narrow, same) == {"b": ("a",), "c": ("a",)}


def test_very_many_rules_are_looked_at_up_to_a_bound_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(never_win, "LOOKUPS_MAX", 100)
    found = find_never_winning([limit(f"r{n:04}", {"user": str(n)}) for n in range(1_000)])
    assert 100 <= found.looked_at < found.rules == 1_000
