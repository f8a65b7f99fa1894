"""A backup holds everything, comes back into either database, and is refused when it is not whole."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headgate.control.backup import backup, restore
from headgate.control.changes import Changes
from headgate.control.errors import BackupError
from headgate.feed import Kind
from headgate.storage.sql import Database, dump, tokens
from tests.control.conftest import KEY_SECRET
from tests.control.state import bodies, head, names, rule, winners
from tests.servers.postgres import Postgres

ANN = "ann"
NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    with database.read() as tx:
        return {table: list(dump.read(tx, table)) for table in dump.TABLES}


def epoch(database: Database) -> int:
    with database.read() as tx:
        return tx.head.epoch


def taken(database: Database) -> bytes:
    file = io.BytesIO()
    backup(database, file)
    return file.getvalue()


def add_token(database: Database, id: str) -> None:
    row = tokens.TokenRow(id=id, hash="0" * 64, name=id, role="admin", created=NOW, created_by="test")
    with database.aside() as tx:
        tokens.add(tx, row)


@pytest.fixture
def lived(changes: Changes) -> Changes:
    """One of everything, with a history."""
    changes.apply_document(
        {"tiers": ["pro"], "rules": [rule("a"), rule("b")], "overrides": [{"user": 1, "tier": "pro"}]}, by=ANN
    )
    changes.patch(Kind.RULE, "a", {"match": {"endpoint": "/ü/{id}", "tier": "pro"}}, by=ANN, why="narrower")
    changes.delete(Kind.RULE, "b", by=ANN)
    changes.create_key({"user": 1, "limit": "3/minute"}, by=ANN)
    changes.add_block({"ip": "203.0.113.0/24", "for": "1h"}, by=ANN)
    changes.switch("a", by=ANN)
    add_token(changes.database, "t1")
    return changes


@pytest.fixture(params=["sqlite", "postgresql"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database of each kind, without even tables."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'other.db'}"
    else:
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    database = Database(url)
    yield database
    database.close()


def test_everything_comes_back_into_an_empty_database_of_either_kind(lived: Changes, other: Database) -> None:
    restored = restore(io.BytesIO(taken(lived.database)), other)

    assert everything(other) == everything(lived.database)
    assert restored.position.version == head(lived.database) == head(other)
    assert restored.position.epoch > epoch(lived.database)
    assert restored.header.counts["rules"] == 1
    # It goes on from there, with what is taken from bodies in place.
    again = Changes(other, key_secret=KEY_SECRET)
    assert again.rollback(1, by=ANN).position.version == head(lived.database) + 1
    assert names(other) == ["a", "b"]


def test_no_secret_is_in_the_file(lived: Changes) -> None:
    made = lived.create_key({"user": 2}, by=ANN)
    assert made.value.rpartition("_")[2].encode() not in gzip.decompress(taken(lived.database))


def test_a_database_that_is_not_empty_is_left_alone_unless_it_is_said(lived: Changes, other: Database) -> None:
    other.migrate()
    theirs = Changes(other)
    theirs.create(Kind.RULE, rule("theirs"), by=ANN)
    before = everything(other)
    with pytest.raises(BackupError, match="is not empty"):
        restore(io.BytesIO(taken(lived.database)), other)
    assert everything(other) == before


def test_a_replaced_state_keeps_the_databases_own_history(lived: Changes, other: Database) -> None:
    other.migrate()
    theirs = Changes(other)
    theirs.create(Kind.RULE, rule("theirs"), by=ANN)
    add_token(other, "t2")
    first_epoch = epoch(other)

    restored = restore(io.BytesIO(taken(lived.database)), other, replace=True)
    assert bodies(other) == bodies(lived.database)
    assert restored.position.version == 2
    assert restored.position.epoch > max(first_epoch, epoch(lived.database))
    assert [row["id"] for row in everything(other)["tokens"]] == ["t1", "t2"]
    assert winners(theirs, user="1") == [], "the mirror follows into the new epoch"
    theirs.rollback(1, by=ANN)
    assert names(other) == ["theirs"]

    same = restore(io.BytesIO(taken(other)), other, replace=True)
    assert not same.changed


def test_a_key_revoked_since_stays_revoked(lived: Changes) -> None:
    file = taken(lived.database)
    (key,) = names(lived.database, Kind.KEY)
    lived.revoke_key(key, by=ANN)
    restore(io.BytesIO(file), lived.database, replace=True)
    assert "revoked" in bodies(lived.database)[Kind.KEY, key]


def test_nor_does_one_come_back_that_was_revoked_and_deleted(lived: Changes) -> None:
    file = taken(lived.database)
    (key,) = names(lived.database, Kind.KEY)
    lived.revoke_key(key, by=ANN)
    lived.delete_key(key, by=ANN)
    restore(io.BytesIO(file), lived.database, replace=True)
    assert bodies(lived.database)[Kind.KEY, key]["revoked_by"] == ANN


def test_a_key_that_was_rotated_ends_when_it_was_to_end(lived: Changes) -> None:
    """The reason for the new one may have been that the old one leaked."""
    file = taken(lived.database)
    (key,) = names(lived.database, Kind.KEY)
    lived.rotate_key(key, grace="1h", by=ANN)
    ends = bodies(lived.database)[Kind.KEY, key]["expires"]
    restore(io.BytesIO(file), lived.database, replace=True)
    assert bodies(lived.database)[Kind.KEY, key]["expires"] == ends


def _altered(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    def alter(file: bytes) -> bytes:
        return gzip.compress(b"".join(change(gzip.decompress(file).splitlines(keepends=True))))

    return alter


def _renamed(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"narrower", b"broader!") for line in lines]


def _counted_down(lines: list[bytes]) -> list[bytes]:
    header = json.loads(lines[0])
    header["headgate_backup"] = 99
    return [json.dumps(header).encode() + b"\n", *lines[1:]]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "text": lambda _: b"rules: []\n",
    "cut in half": lambda file: file[: len(file) // 2],
    "cut at the end": lambda file: file[:-1],
    "one bit": lambda file: file[:200] + bytes([file[200] ^ 4]) + file[201:],
    "something after it": lambda file: file + b"x",
    "another beside it": lambda file: file + file,
    "a word changed": _altered(_renamed),
    "a row twice": _altered(lambda lines: [*lines[:2], *lines[1:]]),
    "a row missing": _altered(lambda lines: [*lines[:3], *lines[4:]]),
    "without its end": _altered(lambda lines: lines[:-1]),
    "only its end": _altered(lambda lines: lines[-1:]),
    "no JSON": _altered(lambda lines: [*lines[:3], b"{\n", *lines[3:]]),
    "no row": _altered(lambda lines: [*lines[:3], b'["calls", {}]\n', *lines[3:]]),
    "of the future": _altered(_counted_down),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_file_that_is_not_whole_is_refused_and_changes_nothing(
    damage: Callable[[bytes], bytes], sqlite_url: str, tmp_path: Path
) -> None:
    source = Database(sqlite_url)
    changes = Changes(source)
    changes.apply_document({"rules": [rule("a"), rule("b")]}, by=ANN)
    changes.delete(Kind.RULE, "b", by=ANN, why="narrower")
    file = damage(taken(source))
    before = everything(source)
    empty = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    with pytest.raises(BackupError):
        restore(io.BytesIO(file), empty)
    with pytest.raises(BackupError):
        restore(io.BytesIO(file), source, replace=True)
    empty.migrate()
    assert head(empty) == 0
    assert bodies(empty) == {}
    assert everything(source) == before
    empty.close()
    source.close()


def test_a_database_of_an_older_schema_is_brought_up_to_date_first(lived: Changes, other: Database) -> None:
    other.migrate("0001")
    assert other.schema_state() == "old"
    restore(io.BytesIO(taken(lived.database)), other)
    assert everything(other) == everything(lived.database)
