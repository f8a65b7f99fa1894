"""Tokens, calls, the fleet, and whole tables for backups."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import ConfigError
from headgate.feed import Kind, Position
from headgate.storage.sql import Database, calls, dump, entries, fleet, history, tokens
from headgate.storage.sql.calls import CallRow
from headgate.storage.sql.fleet import Beat
from headgate.storage.sql.tokens import TokenRow
from tests.servers.postgres import Postgres
from tests.storage.made import change, gone, names, put, put_rule, rule, state

WHEN = datetime(2026, 11, 16, 12, 0, 0, 123_456, tzinfo=UTC)


def token(token_id: str) -> TokenRow:
    return TokenRow(token_id, "5ec2e7" * 10, f"token {token_id}", "admin", WHEN, "headgate", expires=WHEN)


def test_a_token_is_kept_and_revoked_once(database: Database) -> None:
    with database.aside() as tx:
        tokens.add(tx, token("a"))
        tokens.add(tx, token("b"))
    with database.aside() as tx:
        assert tokens.revoke(tx, "a", WHEN, "ada")
        assert not tokens.revoke(tx, "a", WHEN + timedelta(1), "bob")
        assert not tokens.revoke(tx, "unknown", WHEN, "ada")
        tokens.mark_used(tx, "b", WHEN)
    with database.read() as tx:
        found = tokens.get(tx, "a")
        assert found is not None
        assert (found.revoked, found.revoked_by, found.expires) == (WHEN, "ada", WHEN)
        assert "5ec2e7" not in repr(found)
        assert names(tokens.page(tx, limit=5)) == ["a", "b"]
        assert names(tokens.page(tx, limit=5, after="a")) == ["b"]
        assert tokens.get(tx, "x\0") is None
        assert tx.head.version == 0


def test_of_two_first_tokens_one_is_made(database: Database) -> None:
    made: list[bool] = []

    def start(number: int) -> None:
        with database.write() as tx:
            made.append(tokens.add_first(tx, token(f"t{number}")))

    threads = [threading.Thread(target=start, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(made) == [False, False, False, True]
    with database.read() as tx:
        assert tokens.count(tx) == 1


def test_calls_are_paged_newest_first_and_pruned(database: Database) -> None:
    with database.aside() as tx:
        calls.add_many(tx, [])
        calls.add_many(
            tx,
            [
                CallRow(
                    WHEN + timedelta(seconds=number), "ada" if number % 2 else None, "PUT", f"/{number}", 200 + number
                )
                for number in range(6)
            ],
        )
    with database.aside() as tx:
        found = calls.page(tx, limit=2)
        assert [call.path for call in found] == ["/5", "/4"]
        assert [call.path for call in calls.page(tx, limit=2, before=found[-1].id)] == ["/3", "/2"]
        assert [call.path for call in calls.page(tx, limit=9, who="ada")] == ["/5", "/3", "/1"]
        assert [call.at for call in calls.page(tx, limit=9, status=203)] == [WHEN + timedelta(seconds=3)]
        assert calls.prune(tx, WHEN + timedelta(seconds=4)) == 4
        assert len(calls.page(tx, limit=9)) == 2


def test_a_strange_call_is_recorded_all_the_same(database: Database) -> None:
    with database.aside() as tx:
        calls.add_many(
            tx, [CallRow(WHEN, None, "PU\0T", "/\ud800\r\n" + "x" * 5_000, 400, "127.0.0.1", "'; DROP TABLE calls")]
        )
        (found,) = calls.page(tx, limit=5)
    assert found.method == "PU\\x00T"
    assert found.path.startswith("/\\ud800\\r\\nxxx")
    assert len(found.path) <= 2_048


def test_the_newest_heartbeat_of_a_node_stays(database: Database) -> None:
    def beat(node: str, version: int, second: int) -> Beat:
        return Beat(node, "eu", Position(5, version), WHEN + timedelta(seconds=second), json.dumps({"v": version}))

    with database.aside() as tx:
        fleet.put(tx, [beat("n1", 1, 0), beat("n2", 1, 0), beat("n1", 2, 1)])
        fleet.put(tx, [beat("n1", 1, 0), beat("n2", 3, 9)])
        fleet.put(tx, [])
        assert [(one.node, one.position.version) for one in fleet.all(tx)] == [("n1", 2), ("n2", 3)]
        assert fleet.prune(tx, WHEN + timedelta(seconds=5)) == 1
        assert fleet.all(tx) == [beat("n2", 3, 9)]
        with pytest.raises(ConfigError):
            fleet.put(tx, [Beat("n\0", None, Position(5, 1), WHEN, "{}")])


def test_a_dump_of_one_database_fills_another(database: Database, postgres: Postgres, tmp_path: Path) -> None:
    change(database, put_rule("a", match={"tier": "free"}), put(Kind.TIER, "free", name="free"), why="first")
    change(database, put_rule("b"), put(Kind.KEY, "k", id="k", hash="0" * 64, expires="2030-01-01"), who="bob")
    change(database, gone(Kind.RULE, "b", rule("b")))
    with database.aside() as tx:
        tokens.add(tx, token("t"))
        entries.mark_used(tx, ["k"], WHEN)
    with database.read() as tx:
        rows = json.loads(json.dumps({table: list(dump.read(tx, table)) for table in dump.TABLES}))
        old, before = state(tx), tx.head
    other_kind = f"sqlite:///{tmp_path}/other.db" if database.is_postgres else postgres.empty_database()
    other = Database(other_kind)
    other.migrate()
    with other.write() as write:
        assert dump.is_empty(write)
        assert {table: dump.write(write, table, rows[table]) for table in dump.TABLES} == {
            table: len(rows[table]) for table in dump.TABLES
        }
        now = dump.take_position(write, before.version)
    assert now > before
    with other.read() as tx:
        assert tx.head == now
        assert not dump.is_empty(tx)
        assert state(tx) == old
        assert {table: list(dump.read(tx, table)) for table in dump.TABLES} == rows
        assert names(entries.page(tx, Kind.RULE, limit=5, filters={"tier": "free"})) == ["a"]
        assert names(entries.page(tx, Kind.KEY, limit=5, filters={"state": "active"})) == ["k"]
        assert [step.version.version for step in history.of(tx, Kind.RULE, "b", limit=5)] == [3, 2]
    assert change(other, put_rule("c")) == 4
    with other.write() as write:
        dump.clear(write, "rules")
        assert entries.tier_users(write, "free", 5) == []
    other.close()


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("passwords", {}),
        ("rules", {"id": "a"}),
        ("rules", {"surprise": 1}),
        ("tokens", {"id": 5}),
        ("versions", {"version": "one"}),
        ("versions", {"version": True}),
        ("versions", {"version": 1, "epoch": 1, "at": "yesterday"}),
        ("log", {"version": 1, "kind": 1, "id": "a\0"}),
    ],
)
def test_a_row_that_cannot_be_is_refused(database: Database, table: str, row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError), database.write() as tx:
        dump.write(tx, table, [row])
