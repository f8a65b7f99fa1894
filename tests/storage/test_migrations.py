"""The tables: made, unmade and made again, with data in them, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from headgate.errors import ConfigError
from headgate.feed import Kind
from headgate.storage.sql import Database, entries, history, revisions, schema, tokens
from headgate.storage.sql.tokens import TokenRow
from tests.servers.postgres import Postgres
from tests.storage.made import change, put, put_rule, state

WHEN = datetime(2026, 11, 16, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.db"
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    url = postgres.empty_database()
    yield url
    postgres.drop_database(url)


def test_the_migrations_make_the_tables_the_code_knows(database: Database) -> None:
    with database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        indexes = {
            index["name"] for table in schema.metadata.tables for index in sa.inspect(connection).get_indexes(table)
        }
    assert indexes == {index.name for table in schema.metadata.tables.values() for index in table.indexes}


def test_the_revisions_named_in_the_code_are_the_files() -> None:
    config = Config()
    config.set_main_option("script_location", str(revisions.SCRIPTS))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    assert [found.revision for found in reversed(list(script.walk_revisions()))] == list(revisions.REVISIONS)


def test_down_and_up_again_keeps_the_configuration(empty_url: str) -> None:
    database = Database(empty_url)
    database.migrate()
    key = put(Kind.KEY, "k1", id="k1", hash="0" * 64, user="42", expires="2030-01-01T00:00:00Z")
    change(database, put_rule("a", match={"tier": ["free", "pro"]}), put(Kind.TIER, "free", name="free"), key)
    change(database, put_rule("a", put_rule("a", match={"tier": ["free", "pro"]}).after, enabled=False))
    with database.aside() as tx:
        entries.mark_used(tx, ["k1"], WHEN)
        tokens.add(tx, TokenRow("t1", "1" * 64, "first", "admin", WHEN, "headgate"))
    with database.read() as tx:
        before, head = state(tx), tx.head
        stored = entries.get(tx, Kind.KEY, "k1")
        assert stored is not None
        assert stored.last_used == WHEN
    database.migrate("0001")
    assert database.schema_state() == "old"
    database.migrate()
    assert database.schema_state() == "current"
    with database.read() as tx:
        assert state(tx) == before
        assert tx.head == head
        assert [version.version for version in history.versions(tx, limit=10)] == [2, 1]
        again = entries.get(tx, Kind.KEY, "k1")
        assert again is not None
        assert (again.created, again.body, again.last_used) == (stored.created, stored.body, None)
        assert entries.page(tx, Kind.KEY, limit=5, filters={"user": "42", "state": "active"})
        assert tokens.count(tx) == 0
    assert change(database, put_rule("b")) == 3
    database.close()


def test_down_to_nothing_and_up_again_is_a_new_ledger(empty_url: str) -> None:
    database = Database(empty_url)
    database.migrate()
    change(database, put_rule("a"))
    with database.read() as tx:
        old = tx.head
    database.migrate("base")
    assert database.schema_state() == "empty"
    with database.connect() as connection:
        assert set(sa.inspect(connection).get_table_names()) <= {revisions.VERSION_TABLE}
    database.migrate()
    with database.read() as tx:
        assert tx.head.version == 0
        assert tx.head > old
    database.close()


def test_two_control_planes_may_start_at_once(empty_url: str) -> None:
    databases = [Database(empty_url) for _ in range(4)]
    errors: list[BaseException] = []

    def start(database: Database) -> None:
        try:
            database.migrate()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=[database]) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert [database.schema_state() for database in databases] == ["current"] * 4
    for database in databases:
        database.close()


def test_tables_of_a_newer_headgate_are_left_alone(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(sa.text(f"UPDATE {revisions.VERSION_TABLE} SET version_num = '9999'"))
    assert database.schema_state() == "newer"
    with pytest.raises(ConfigError, match="newer Headgate"):
        database.migrate()


def test_a_revision_that_does_not_exist_is_refused(database: Database) -> None:
    with pytest.raises(ConfigError, match="no schema revision '0815'"):
        database.migrate("0815")
