"""The log: versions, what they changed, what was at any of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.errors import ConfigError
from headgate.feed import Entry, Kind
from headgate.storage.sql import Changed, Database, TooLarge, Transaction, history
from tests.storage.made import change, gone, put, put_rule, rule


def between(tx: Transaction, after: int, upto: int) -> list[Entry]:
    found = history.entries_between(tx, after, upto)
    assert isinstance(found, Iterator)
    return list(found)


@pytest.fixture
def told(database: Database) -> Database:
    """Five versions: a and b made; a changed; b deleted; b made again as it was; a tier."""
    change(database, put_rule("a"), put_rule("b"), who="ada", why="first", verb="create")
    change(database, put_rule("a", rule("a"), priority=7), who="bob", verb="replace")
    change(database, gone(Kind.RULE, "b", rule("b")), who="bob", verb="delete")
    change(database, put_rule("b"))
    change(database, put(Kind.TIER, "free", name="free"))
    return database


def test_versions_come_newest_first(told: Database) -> None:
    with told.read() as tx:
        found = history.versions(tx, limit=3)
        assert [(one.version, one.verb, one.changes) for one in found] == [
            (5, "apply", 1),
            (4, "apply", 1),
            (3, "delete", 1),
        ]
        assert [one.version for one in history.versions(tx, limit=3, before=3)] == [2, 1]
        first = history.version(tx, 1)
        assert first is not None
        assert (first.who, first.why, first.verb, first.changes, first.epoch) == (
            "ada",
            "first",
            "create",
            2,
            tx.head.epoch,
        )
        assert history.version(tx, 6) is None


def test_what_a_version_changed_can_be_paged_through(told: Database) -> None:
    with told.read() as tx:
        assert history.changes(tx, 1, limit=1) == [put_rule("a")]
        assert history.changes(tx, 1, limit=5, after=(Kind.RULE, "a")) == [put_rule("b")]
        assert history.changes(tx, 1, limit=5, after=(Kind.RULE, "b")) == []
        assert history.changes(tx, 2, limit=5) == [put_rule("a", rule("a"), priority=7)]
        assert list(history.all_changes(tx, 1)) == [put_rule("a"), put_rule("b")]


def test_an_entry_has_a_history_of_its_own(told: Database) -> None:
    with told.read() as tx:
        steps = history.of(tx, Kind.RULE, "b", limit=10)
        assert [(step.version.version, step.change.before, step.change.after) for step in steps] == [
            (4, None, rule("b")),
            (3, rule("b"), None),
            (1, None, rule("b")),
        ]
        assert [step.version.version for step in history.of(tx, Kind.RULE, "b", limit=1, before=4)] == [3]
        assert history.of(tx, Kind.TIER, "b", limit=10) == []


def test_a_delta_holds_the_last_body_of_each_entry(told: Database) -> None:
    with told.read() as tx:
        assert between(tx, 0, 3) == [Entry(Kind.RULE, "a", rule("a", priority=7)), Entry(Kind.RULE, "b", None)]
        assert between(tx, 2, 4) == [Entry(Kind.RULE, "b", rule("b"))]
        assert between(tx, 4, 5) == [Entry(Kind.TIER, "free", '{"name":"free"}')]
        assert between(tx, 5, 5) == []
        assert isinstance(history.entries_between(tx, 0, 5, limit_bytes=20), TooLarge)
        assert history.entries_between(tx, 0, 1, limit_changes=1) == TooLarge(2, 2 * len("a" + rule("a")))


def test_what_differs_from_a_version_is_found(told: Database) -> None:
    with told.read() as tx:
        now = rule("a", priority=7)
        tier = Changed(Kind.TIER, "free", None, '{"name":"free"}')
        assert list(history.bodies_at(tx, 0)) == [Changed(Kind.RULE, "a", None, now), put_rule("b"), tier]
        # b was deleted and made again: nothing to be seen of it.
        assert list(history.bodies_at(tx, 1)) == [Changed(Kind.RULE, "a", rule("a"), now), tier]
        assert list(history.bodies_at(tx, 1, [Kind.TIER])) == [tier]
        assert list(history.bodies_at(tx, 2, upto=3)) == [Changed(Kind.RULE, "b", rule("b"), None)]
        assert list(history.bodies_at(tx, 5)) == []


def test_a_change_of_nothing_or_of_one_thing_twice_is_a_mistake(database: Database) -> None:
    with pytest.raises(ValueError, match="takes no version"):
        change(database)
    with pytest.raises(ValueError, match="twice"):
        change(database, put_rule("a"), put_rule("a"))
    with pytest.raises(ConfigError, match="reason"):
        change(database, put_rule("a"), why="x" * 5_000)
    assert change(database, put_rule("a")) == 1
