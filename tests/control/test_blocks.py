"""Blocks: whom, how long, and that a misspelt range is no surprise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.control.changes import Changes
from headgate.control.errors import Invalid, NotThere
from headgate.feed import Kind
from headgate.storage.sql import Database
from tests.control.state import bodies, versions

ANN = "ann"
NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def timed(opened: Database) -> Changes:
    return Changes(opened, now=lambda: NOW)


def only_block(changes: Changes) -> dict[str, Any]:
    (body,) = bodies(changes.database, Kind.BLOCK).values()
    return body


def allowed(changes: Changes, ip: str) -> bool:
    with changes.mirror.held():
        with changes.database.read() as tx:
            changes.mirror.follow(tx)
        return bool(changes.mirror.explain({"ip": ip})["decision"]["allowed"])


@pytest.mark.parametrize(
    ("length", "until"),
    [
        ("90s", "2027-01-31T12:01:30Z"),
        ("15m", "2027-01-31T12:15:00Z"),
        ("1h", "2027-01-31T13:00:00Z"),
        ("7d", "2027-02-07T12:00:00Z"),
    ],
)
def test_a_block_ends_when_it_was_said_to(sqlite_url: str, length: str, until: str) -> None:
    database = Database(sqlite_url)
    changes = Changes(database, now=lambda: NOW)
    changes.add_block({"ip": "203.0.113.0/24", "for": length}, by=ANN)
    assert only_block(changes)["until"] == until
    database.close()


def test_a_block_is_enforced_told_of_and_lifted(timed: Changes) -> None:
    outcome = timed.add_block({"ip": "203.0.113.0/24", "why": "they scan us"}, by=ANN)
    assert outcome.entry is not None
    block = outcome.entry.id
    assert (block[0], len(block)) == ("b", 12)
    assert outcome.entry.body == {"id": block, "ip": "203.0.113.0/24", "why": "they scan us"}
    assert versions(timed.database)[0].why == "they scan us"
    assert not allowed(timed, "203.0.113.9")

    timed.lift_block(block, by=ANN)
    assert bodies(timed.database) == {}
    assert allowed(timed, "203.0.113.9")
    with pytest.raises(NotThere):
        timed.lift_block(block, by=ANN)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"ip": "203.0.113.7/32"}, "203.0.113.7"),
        ({"ip": "2001:DB8::/32"}, "2001:db8::/32"),
        ({"ip": "::ffff:192.0.2.0/120"}, "192.0.2.0/24"),
        ({"user": 42}, "42"),
        ({"org": "acme"}, "acme"),
        ({"api_key": "k3v9x2m4q7wz"}, "k3v9x2m4q7wz"),
    ],
)
def test_one_spelling_is_kept_for_whom_it_is_for(lite: Changes, given: dict[str, Any], kept: str) -> None:
    lite.add_block(given, by=ANN)
    (fact,) = given
    assert only_block(lite)[fact] == kept


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"ip": "203.0.113.7/24"}, "ip", "did you mean `203.0.113.0/24`"),
        ({"ip": "nonsense"}, "ip", "not an address or range"),
        ({}, "", "exactly one of"),
        ({"ip": "192.0.2.1", "user": "1"}, "", "exactly one of"),
        ({"user": "1", "for": "1 fortnight"}, "for", "such as `90s`"),
        ({"user": "1", "for": "9999999w"}, "for", "longer than"),
        ({"user": "1", "for": "1h", "until": "2027-02-01T00:00:00Z"}, "for", "not both"),
        ({"user": "1", "until": "2027-02-01"}, "until", "a time such as"),
        ({"user": "1", "id": "b12345678901"}, "id", "leave it out"),
        ({"user": "1", "reason": "x"}, "reason", "not known here"),
    ],
)
def test_what_is_wrong_with_a_block_is_told(lite: Changes, given: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        lite.add_block(given, by=ANN)
    assert [where for where, _ in refused.value.mistakes] == [path]
    assert words in str(refused.value)
