"""What is still to be published, region by region."""

from __future__ import annotations

import pytest

from headgate.feed import START, Kind, Position
from headgate.storage.sql import Database, outbox
from tests.storage.made import change, put, put_rule


def pending(database: Database, region: str) -> list[tuple[int, bool]]:
    with database.read() as tx:
        return [(one.position.version, one.urgent) for one in outbox.pending(tx, region)]


def test_a_region_is_owed_what_it_has_not_been_told(database: Database) -> None:
    change(database, put_rule("a"))
    change(database, put(Kind.BLOCK, "b1", id="b1", ip="203.0.113.7"), put_rule("b"))
    change(database, put(Kind.SWITCH, "*", id="*"))
    assert pending(database, "eu") == [(1, False), (2, True), (3, True)]
    with database.aside() as tx:
        outbox.published(tx, "eu", Position(tx.head.epoch, 2))
        outbox.published(tx, "us", tx.head)
    assert pending(database, "eu") == [(3, True)]
    assert pending(database, "us") == []


def test_two_publishers_cannot_take_a_region_back(database: Database) -> None:
    change(database, put_rule("a"))
    change(database, put_rule("b"))
    with database.aside() as tx:
        outbox.published(tx, "eu", tx.head)
        outbox.published(tx, "eu", Position(tx.head.epoch, 1))
        assert outbox.position(tx, "eu") == tx.head
        assert outbox.position(tx, "us") == START


def test_an_error_is_kept_until_a_publication_succeeds(database: Database) -> None:
    change(database, put_rule("a"))
    with database.aside() as tx:
        outbox.published(tx, "eu", START, error="refused " + "x" * 1_000)
        (first,) = outbox.regions(tx)
        outbox.published(tx, "eu", START, error="refused again")
        (second,) = outbox.regions(tx)
    assert first.error is not None
    assert len(first.error) <= 500
    assert (second.error, second.failed, second.position) == ("refused again", first.failed, START)
    assert pending(database, "eu") == [(1, False)]
    with database.aside() as tx:
        outbox.published(tx, "eu", tx.head)
        (third,) = outbox.regions(tx)
    assert (third.error, third.failed, third.position) == (None, None, tx.head)
    assert third.published is not None
    with database.aside() as tx:
        outbox.published(tx, "eu", tx.head, error="refused once more")
        (fourth,) = outbox.regions(tx)
    assert (fourth.error, fourth.position, fourth.published) == ("refused once more", tx.head, third.published)
    assert fourth.failed is not None
    assert fourth.failed >= third.published


def test_another_epoch_owes_everything_again(database: Database) -> None:
    change(database, put_rule("a"))
    with database.aside() as tx:
        outbox.published(tx, "eu", tx.head)
    with database.write() as write:
        write.new_epoch()
    assert pending(database, "eu") == [(1, False)]


def test_pruning_keeps_what_a_region_still_needs(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        change(database, put_rule(f"r{number}"))
    monkeypatch.setattr(outbox, "KEPT", 1)
    with database.aside() as tx:
        outbox.published(tx, "eu", Position(tx.head.epoch, 2))
        outbox.published(tx, "us", tx.head)
        assert outbox.prune(tx) == 2
    assert pending(database, "new") == [(3, False), (4, False), (5, False)]
    with database.aside() as tx:
        outbox.forget(tx, "eu")
        assert outbox.prune(tx) == 2
    assert pending(database, "new") == [(5, False)]
