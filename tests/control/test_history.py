"""Back to a version, and what lies between two."""

from __future__ import annotations

import pytest

from headgate.control import bulk, rolling_back
from headgate.control.changes import Changes
from headgate.control.errors import NotThere
from headgate.control.rolling_back import unified
from headgate.feed import Kind
from tests.control.state import bodies, head, names, rule, versions, winners

ANN = "ann"


@pytest.fixture
def lived(changes: Changes) -> Changes:
    """Three versions: two rules; a third kind of everything; one rule changed and one gone."""
    changes.apply_document({"rules": [rule("a"), rule("b", match={"user": "b"})]}, by=ANN)
    changes.apply_document({"tiers": ["pro"], "overrides": [{"user": 1, "tier": "pro"}]}, by=ANN)
    changes.apply_document({"rules": [rule("a", "9/minute")]}, prune=True, by=ANN)
    return changes


@pytest.mark.parametrize("few", [0, 2_000])
def test_the_state_of_a_version_becomes_a_new_version(
    lived: Changes, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(bulk, "FEW", few)
    monkeypatch.setattr(rolling_back, "FEW", few)
    outcome = lived.rollback(1, by=ANN)
    assert outcome.position.version == 4
    assert bodies(lived.database) == {(Kind.RULE, "a"): rule("a"), (Kind.RULE, "b"): rule("b", match={"user": "b"})}
    assert winners(lived, user="b") == ["b"]
    assert versions(lived.database)[0].why == "back to version 1"

    assert not lived.rollback(1, by=ANN).changed
    lived.rollback(3, by=ANN)
    assert names(lived.database) == ["a"]
    assert names(lived.database, Kind.TIER) == ["pro"]
    lived.rollback(0, by=ANN, why="start over")
    assert bodies(lived.database) == {}
    assert head(lived.database) == 6


def test_a_dry_run_of_a_rollback_shows_what_it_would_do(lived: Changes) -> None:
    told = lived.rollback(1, by=ANN, dry_run=True)
    assert (told.counts.created, told.counts.replaced, told.counts.deleted) == (1, 1, 2)
    assert head(lived.database) == 3


def test_a_revoked_key_does_not_come_back_to_life(changes: Changes) -> None:
    made = changes.create_key({"user": 1}, by=ANN)
    changes.create(Kind.RULE, rule("a"), by=ANN)
    changes.revoke_key(made.id, by=ANN)
    changes.rollback(1, by=ANN)
    ((_, body),) = bodies(changes.database).items()
    assert "revoked" in body


@pytest.mark.parametrize("few", [0, 2_000])
def test_the_limits_of_a_key_stay_with_the_key(changes: Changes, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(bulk, "FEW", few)
    monkeypatch.setattr(rolling_back, "FEW", few)
    made = changes.create_key({"user": 1, "limit": "3/minute"}, by=ANN)
    changes.create(Kind.RULE, rule("a"), by=ANN)
    changes.rollback(0, by=ANN)
    assert sorted(bodies(changes.database)) == [(Kind.OVERRIDE, f"api_key:{made.id}"), (Kind.KEY, made.id)]


def test_versions_that_never_were_are_told_apart(lived: Changes) -> None:
    for version in (-1, 4):
        with pytest.raises(NotThere, match=f"no version {version}; the newest is 3"):
            lived.rollback(version, by=ANN)
        with pytest.raises(NotThere):
            lived.diff(0, version)


def test_a_diff_is_what_brings_the_one_to_the_other(lived: Changes) -> None:
    diff = lived.diff(1, 3)
    assert [(one.kind, one.id) for one in diff.changes] == [
        (Kind.RULE, "a"),
        (Kind.RULE, "b"),
        (Kind.OVERRIDE, "user:1"),
        (Kind.TIER, "pro"),
    ]
    assert not diff.more
    back = lived.diff(3, 1)
    assert [(one.before, one.after) for one in back.changes] == [(one.after, one.before) for one in diff.changes]
    assert lived.diff(2, 2).changes == ()
    assert lived.diff(1, 3, limit=2).more

    text = unified(diff.changes[0])
    assert '-  "limit": "5/minute",' in text
    assert '+  "limit": "9/minute",' in text


def test_a_diff_shows_no_hash(changes: Changes) -> None:
    changes.create_key({"user": 1}, by=ANN)
    assert "hash" not in str(changes.diff(0, 1))
