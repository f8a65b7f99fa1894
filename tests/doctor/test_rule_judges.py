"""Rules that are well written and still do nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.doctor.gather import rules as gathered
from headgate.doctor.gather.rules import RulesFacts, look_at_rules
from headgate.doctor.judge.rules import judge_gateway_rules, judge_rules
from headgate.settings import read_settings
from tests.doctor.seen import bad, only

NOW = datetime(2030, 6, 1, tzinfo=UTC)


def facts_of(folder: Path, text: str, name: str = "rules.yaml") -> RulesFacts:
    """As they are read from a file: nothing is judged that the engine would refuse."""
    path = folder / name
    path.write_text(text)
    found = look_at_rules(read_settings({"rules": str(path)}, environ={}, folder=folder))
    assert found is not None
    return found


def judged(folder: Path, text: str, *, is_shared: bool = True) -> dict[str, str]:
    return bad(judge_rules(facts_of(folder, text), now=NOW, is_shared=is_shared))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("match: {method: [GET, patch]}", {}),
        ("match: {method: 'GET,POST'}", {"rules.no_method": "warning"}),
        ("match: {method: '*'}", {"rules.no_method": "warning"}),
        ("match: {method: GTE}", {"rules.odd_method": "note"}),
        ("match: {endpoint: '/search?q=1'}", {"rules.query": "warning"}),
        ("match: {ip: 10.0.0.0/8}", {}),
        ("match: {ip: 0.0.0.0/0}", {}),
        ("match: {ip: 224.0.0.1}", {"rules.no_address": "warning"}),
        ("match: {ip: 250.0.0.0/8}", {"rules.no_address": "warning"}),
        ("match: {ip: 'ff02::/16'}", {"rules.no_address": "warning"}),
        ("match: {ip: 0.0.0.0}", {"rules.no_address": "warning"}),
        ("match: {method: GTE}, enabled: false", {}),
    ],
)
def test_rules_that_never_match(rule: str, expected: dict[str, str], tmp_path: Path) -> None:
    assert judged(tmp_path, f"rules:\n  - {{name: a, by: user, limit: 5/minute, {rule}}}\n") == expected


def test_blocks_that_have_ended(tmp_path: Path) -> None:
    text = """
rules:
  - {name: old, match: {user: 1}, action: block, until: "2030-05-31T00:00:00Z"}
  - {name: new, match: {user: 2}, action: block, until: "2030-06-02T00:00:00+02:00"}
overrides:
  - {org: acme, block: {until: "2030-01-01T00:00:00Z"}}
"""
    found = [one for one in judge_rules(facts_of(tmp_path, text), now=NOW, is_shared=True) if one.code == "rules.ended"]
    assert [one.seen.partition(":")[0] for one in found] == ["old", "the block of org acme"]


def test_hidden_rules_and_those_decided_first(tmp_path: Path) -> None:
    text = """
rules:
  - {name: all, by: user, limit: 9/minute, priority: 200}
  - {name: login, match: {endpoint: /login}, by: user, limit: 5/minute}
  - {name: health, match: {endpoint: /healthz}, action: allow}
  - {name: probes, match: {endpoint: /healthz}, by: ip, limit: 5/minute}
"""
    found = list(judge_rules(facts_of(tmp_path, text), now=NOW, is_shared=True))
    assert only(found, "rules.never_wins").seen == "login loses to all"
    assert only(found, "rules.decided_first").seen == "probes, by health"


@pytest.mark.parametrize("closed", ["on_store_failure: closed", "class: abuse"])
def test_a_policy_for_a_store_that_is_not_there(closed: str, tmp_path: Path) -> None:
    text = f"rules:\n  - {{name: a, by: user, limit: 5/minute, {closed}}}\n"
    assert judged(tmp_path, text, is_shared=False) == {"rules.closed_without_store": "note"}
    assert judged(tmp_path, text, is_shared=True) == {}


def test_mistakes_are_told_with_their_place(tmp_path: Path) -> None:
    text = "rules:\n  - {name: a, by: user, limit: often}\n"
    found = only(judge_rules(facts_of(tmp_path, text), now=NOW, is_shared=True), "rules.mistakes")
    assert "rules.yaml:2:" in found.seen
    missing = RulesFacts("x", tuple(facts_of(tmp_path, text).mistakes) * 7)
    assert "and 2 more" in only(judge_rules(missing, now=NOW, is_shared=True), "rules.mistakes").seen


def test_bulk_files_are_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "RULES_MAX", 3)
    lines = [f'{{"name": "r{n}", "match": {{"org": "{n}"}}, "by": "org", "limit": "5/second"}}\n\n' for n in range(5)]
    found = facts_of(tmp_path, "".join(lines), "rules.jsonl")
    assert (len(found.rules), found.is_cut, found.count) == (3, True, 5)
    assert bad(judge_rules(found, now=NOW, is_shared=True)) == {"rules.cut": "note"}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, {}),
        ({"match": {"tier": ["free", "gold"]}}, {}),
        ({"match": {"tier": "gold"}}, {"rules.unknown_callers": "warning"}),
        ({"match": {"org": "acme"}}, {"rules.unknown_callers": "warning"}),
        ({"match": {"descriptors": {"plan": "x"}}}, {"rules.no_descriptors": "note"}),
    ],
)
def test_what_a_gateway_cannot_know(rule: dict[str, Any], expected: dict[str, str]) -> None:
    facts = RulesFacts("x", rules=({"name": "a", "by": "user", "limit": "5/minute", **rule},))
    assert bad(judge_gateway_rules(facts, knows_callers=False)) == expected
    known = {code: level for code, level in expected.items() if code != "rules.unknown_callers"}
    assert bad(judge_gateway_rules(facts, knows_callers=True)) == known


def test_rules_of_a_control_plane_are_in_no_file(tmp_path: Path) -> None:
    settings = read_settings({"rules": "redis://127.0.0.1:1", "feed_key_file": "k"}, environ={}, folder=tmp_path)
    assert look_at_rules(settings) is None
