"""Whole documents and long streams: one version or none, and every mistake with its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.control import bulk
from headgate.control.changes import Changes
from headgate.control.errors import Invalid, Moved
from headgate.feed import Kind
from tests.control.conftest import Heard
from tests.control.state import bodies, head, names, rule, winners

ANN = "ann"
DOCUMENT: dict[str, Any] = {
    "tiers": ["free", {"name": "pro", "description": "pays"}],
    "rules": [rule("everyone"), rule("pro", match={"tier": "pro"})],
    "overrides": [{"user": 42, "tier": "pro"}],
}


def lines(count: int, limit: str = "5/minute", start: int = 0) -> Iterator[bytes]:
    for nth in range(start, start + count):
        yield json.dumps(rule(f"org-{nth:06}", limit, by="org", match={"org": str(nth)})).encode() + b"\n"


def test_a_document_is_one_version_and_the_second_time_none(changes: Changes, heard: Heard) -> None:
    outcome = changes.apply_document(DOCUMENT, by=ANN)
    assert (outcome.position.version, outcome.counts.created) == (1, 5)
    assert len(outcome.changes) == 5

    again = changes.apply_document(DOCUMENT, by=ANN)
    assert not again.changed
    assert again.counts.unchanged == 5
    assert len(heard.positions) == 1
    assert winners(changes, user="42") == ["pro"]


@pytest.mark.parametrize("prune", [False, True])
def test_what_was_planned_is_applied_only_if_nobody_changed_anything_since(changes: Changes, prune: bool) -> None:
    planned = changes.apply_document(DOCUMENT, by=ANN, prune=prune, dry_run=True).position
    changes.create(Kind.RULE, rule("in-between"), by="bob")
    with pytest.raises(Moved, match="somebody else has changed it"):
        changes.apply_document(DOCUMENT, by=ANN, prune=prune, at=planned)
    with pytest.raises(Moved):
        changes.apply_lines(lines(3), by=ANN, at=planned)
    assert names(changes.database) == ["in-between"]
    again = changes.apply_document(DOCUMENT, by=ANN, prune=prune, dry_run=True).position
    assert changes.apply_document(DOCUMENT, by=ANN, prune=prune, at=again).position.version == 2
    # Nothing is left to be done, so it does not matter who did what meanwhile.
    assert not changes.apply_document(DOCUMENT, by=ANN, prune=prune, at=planned).changed


def test_a_tier_named_alone_keeps_its_description(changes: Changes) -> None:
    changes.apply_document(DOCUMENT, by=ANN)
    assert not changes.apply_document({"tiers": ["free", "pro"]}, by=ANN, prune=True).changed


def test_without_prune_nothing_is_deleted_and_with_it_what_is_missing(changes: Changes) -> None:
    changes.apply_document(DOCUMENT, by=ANN)
    assert changes.apply_document({"rules": [rule("everyone", "6/minute")]}, by=ANN).counts.replaced == 1
    assert names(changes.database) == ["everyone", "pro"]

    outcome = changes.apply_document({"rules": [rule("new")]}, prune=True, by=ANN)
    assert (outcome.counts.created, outcome.counts.deleted) == (1, 2)
    assert names(changes.database) == ["new"]
    assert names(changes.database, Kind.OVERRIDE) == ["user:42"], "a section that is not in the document is left alone"

    changes.apply_document({"rules": [], "tiers": [], "overrides": []}, prune=True, by=ANN)
    assert bodies(changes.database) == {}


def test_pruning_leaves_the_limits_of_keys(changes: Changes) -> None:
    made = changes.create_key({"user": 1, "limit": "3/minute"}, by=ANN)
    changes.apply_document(DOCUMENT, by=ANN)
    changes.apply_document({"overrides": []}, prune=True, by=ANN)
    assert names(changes.database, Kind.OVERRIDE) == [f"api_key:{made.id}"]


@pytest.mark.parametrize("few", [0, 10_000])
def test_pruned_rules_take_their_switches_along(changes: Changes, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(bulk, "FEW", few)
    changes.apply_document(DOCUMENT, by=ANN)
    changes.switch("pro", by=ANN)
    changes.switch("*", by=ANN)
    changes.apply_document({"rules": [rule("everyone")]}, prune=True, by=ANN)
    assert names(changes.database, Kind.SWITCH) == ["*"]


def test_every_mistake_of_a_document_is_told_with_its_place(changes: Changes) -> None:
    broken = {
        "rules": [rule("a", "often"), rule("b"), rule("b"), {"by": "user"}, 7],
        "overrides": [{"user": 1}, {"limit": "1/day"}],
        "overides": [],
        "tiers": "free",
    }
    with pytest.raises(Invalid) as refused:
        changes.apply_document(broken, by=ANN)
    assert {path for path, _ in refused.value.mistakes} == {
        "rules[2]", "rules[3].name", "rules[4]", "overrides[1]", "overides", "tiers",
    }  # fmt: skip
    with pytest.raises(Invalid) as refused:
        changes.apply_document({"rules": [rule("a", "often"), rule("b", nme=1)], "overrides": [{"user": 1}]}, by=ANN)
    assert {path for path, _ in refused.value.mistakes} == {"rules[0].limit", "rules[1].nme", "overrides[0]"}
    with pytest.raises(Invalid) as refused:
        changes.apply_document({"tiers": ["free"], "rules": [rule("a"), rule("b", match={"tier": "pro"})]}, by=ANN)
    assert [path for path, _ in refused.value.mistakes] == ["rules[1].match.tier"]
    assert head(changes.database) == 0


def test_a_documents_dry_run_tells_all_and_changes_nothing(changes: Changes, heard: Heard) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    told = changes.apply_document({"rules": [rule("vip", match={"user": "1"})]}, prune=True, by=ANN, dry_run=True)
    assert (told.counts.created, told.counts.deleted) == (1, 1)
    assert {(one.winner_before, one.winner_after) for one in told.contests} == {("everyone", "vip"), ("everyone", None)}
    assert (head(changes.database), len(heard.positions)) == (1, 1)
    assert winners(changes, user="1") == ["everyone"]


@pytest.mark.parametrize("few", [0, 10_000])
def test_lines_are_one_version_however_many(changes: Changes, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(bulk, "FEW", few)
    seen: list[int] = []
    changes.create(Kind.RULE, rule("old", match={"user": "1"}), by=ANN)
    outcome = changes.apply_lines(lines(2_100), by=ANN, progress=seen.append)
    assert (outcome.position.version, outcome.counts.created) == (2, 2_100)
    assert seen == [2_000, 2_100]
    assert len(outcome.changes) == 1_000
    assert winners(changes, org="2099") == ["org-002099"]

    assert not changes.apply_lines(lines(2_100), by=ANN).changed
    told = changes.apply_lines(lines(1_500, "6/minute"), prune=True, by=ANN, dry_run=True)
    assert (told.counts.replaced, told.counts.deleted) == (1_500, 601)
    assert head(changes.database) == 2
    assert winners(changes, user="1") == ["old"]

    outcome = changes.apply_lines(lines(1_500, "6/minute"), prune=True, by=ANN)
    assert (outcome.counts.replaced, outcome.counts.deleted) == (1_500, 601)
    assert winners(changes, user="1", org="1500") == []
    # The mirror is where the database is, so an ordinary change goes on from there.
    assert changes.create(Kind.RULE, rule("old"), by=ANN).position.version == 4


def test_mistakes_in_lines_are_told_with_their_numbers_and_nothing_is_done(changes: Changes) -> None:
    broken: list[bytes | str] = [
        b"",
        json.dumps(rule("a", "often")),
        b'{"name": "b", "by": "user", "limit": "1/day", "limit": "2/day"}',
        b"[1]",
        b"\xff",
        b"{",
        json.dumps({"by": "user", "limit": "1/day"}),
        json.dumps(rule("c", description="\0")),
        json.dumps(rule("d", description="x" * 70_000)),
    ]
    with pytest.raises(Invalid) as refused:
        changes.apply_lines([*lines(2_100), *broken], by=ANN)
    told = [path for path, _ in refused.value.mistakes]
    assert told == [
        "line 2102: limit", "line 2103", "line 2104", "line 2105", "line 2106", "line 2107: name",
        "line 2108: description", "line 2109",
    ]  # fmt: skip
    assert "`limit` is written twice" in str(refused.value)
    assert head(changes.database) == 0


def test_a_name_given_twice_among_the_lines_is_refused(changes: Changes) -> None:
    with pytest.raises(Invalid, match="line 21: name: `org-000007` is on line 8 already"):
        changes.apply_lines([*lines(20), *lines(1, start=7)], by=ANN)
    with pytest.raises(Invalid, match="more than once: rule 'org-000007'"):
        changes.apply_lines([*lines(2_100), *lines(1, start=7)], by=ANN)
    assert head(changes.database) == 0


def test_only_the_first_hundred_mistakes_are_told_and_the_rest_is_not_read(lite: Changes) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "nonsense"

    with pytest.raises(Invalid) as refused:
        lite.apply_lines(endless(), by=ANN)
    assert (len(refused.value.mistakes), read) == (100, 100)


def test_what_the_engine_has_no_room_for_is_refused_in_bulk_as_well(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    for few in (10_000, 0):
        monkeypatch.setattr(bulk, "FEW", few)
        with pytest.raises(Invalid, match="256"):
            changes.apply_lines([json.dumps(rule(f"r{nth}", by=["user", f"d{nth}"])) for nth in range(300)], by=ANN)
        assert head(changes.database) == 1
        assert winners(changes, user="1") == ["everyone"]


def test_unknown_tiers_are_refused_in_bulk_as_well(changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    changes.create(Kind.TIER, {"name": "free"}, by=ANN)
    for few in (10_000, 0):
        monkeypatch.setattr(bulk, "FEW", few)
        with pytest.raises(Invalid, match="`pro` is not one of the tiers"):
            changes.apply_lines([json.dumps(rule("r", match={"tier": "pro"}))], by=ANN)
    assert head(changes.database) == 1
