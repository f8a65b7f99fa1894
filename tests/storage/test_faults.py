"""The database stopped, killed, hung: told clearly within the time-out, and used again as soon as it is back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from headgate.errors import StorageDown
from headgate.feed import Kind
from headgate.storage.sql import Database, bulk, entries
from tests.servers.postgres import PASSWORD, Postgres
from tests.storage.made import change, put_rule, rule, rule_entry, state

CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 0.5
# Against a machine that stands still for a while; what is tested is that it ends at all.
DEADLINE_S = 20 * (CONNECT_TIMEOUT_S + ANSWER_TIMEOUT_S)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One's own: it is stopped and hung."""
    with Postgres() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> Iterator[Database]:
    database = Database(server.new_database(), connect_timeout_s=CONNECT_TIMEOUT_S)
    change(database, put_rule("a"))
    yield database
    database.close()


def is_down(database: Database) -> str:
    """What reading and writing say."""
    said = []
    for open_one in (database.read, database.write):
        start_s = time.monotonic()
        with pytest.raises(StorageDown) as raised, open_one(timeout_s=ANSWER_TIMEOUT_S):
            pass
        assert time.monotonic() - start_s < DEADLINE_S
        said.append(str(raised.value))
    assert PASSWORD not in "".join(said)
    return said[0]


def works_again(database: Database, version: int) -> None:
    assert change(database, put_rule(f"r{version}")) == version
    with database.read() as tx:
        stored = entries.get(tx, Kind.RULE, "a")
        assert stored is not None
        assert stored.text == rule("a")


def test_a_stopped_server_is_down_until_it_is_started(server: Postgres, database: Database) -> None:
    server.stop()
    try:
        assert "does not answer" in is_down(database)
    finally:
        server.start()
    works_again(database, 2)


def test_a_killed_server_loses_what_was_not_committed_and_nothing_else(server: Postgres, database: Database) -> None:
    with pytest.raises(StorageDown, match="it may or may not have been"), database.write() as tx:
        tx.commit_version("ada", None, "create", [put_rule("b")])
        server.kill9()
    try:
        is_down(database)
    finally:
        server.start()
    works_again(database, 2)


def test_a_hung_server_is_down_until_it_goes_on(server: Postgres, database: Database) -> None:
    listener = database.listener()
    assert listener is not None
    listener.wait(5)
    server.hang()
    try:
        is_down(database)
        assert not listener.wait(0.05)
    finally:
        server.cont()
    works_again(database, 2)
    assert listener.wait(20)
    listener.close()


def test_a_server_that_hangs_inside_a_change_fails_it(server: Postgres, database: Database) -> None:
    start_s = time.monotonic()
    try:
        with pytest.raises(StorageDown, match="no answer within"), database.write(timeout_s=ANSWER_TIMEOUT_S) as tx:
            server.hang()
            tx.commit_version("ada", None, "create", [put_rule("b")])
        assert time.monotonic() - start_s < DEADLINE_S
    finally:
        server.cont()
    works_again(database, 2)


def test_a_connection_cut_in_the_middle_fails_that_change_alone(server: Postgres, database: Database) -> None:
    with pytest.raises(StorageDown), database.write() as tx:
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate'")
        tx.commit_version("ada", None, "create", [put_rule("b")])
    works_again(database, 2)


def test_a_connection_cut_while_staging_leaves_nothing(server: Postgres, database: Database) -> None:
    with pytest.raises(StorageDown), bulk.staging(database) as staged:
        staged.put([rule_entry("b")])
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate'")
        staged.put([rule_entry("c")])
    works_again(database, 2)
    with database.read() as tx:
        assert set(state(tx)) == {(Kind.RULE, "a"), (Kind.RULE, "r2")}


def test_a_listener_whose_connection_is_cut_says_so_and_listens_again(server: Postgres, database: Database) -> None:
    listener = database.listener()
    assert listener is not None
    listener.wait(5)
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate'")
    with pytest.raises(StorageDown):
        listener.wait(20)
    assert listener.wait(5)
    change(database, put_rule("b"))
    assert listener.wait(20)
    listener.close()


def test_a_slow_answer_is_given_up_and_the_connection_kept(server: Postgres, database: Database) -> None:
    with pytest.raises(StorageDown, match="took too long"), database.read(timeout_s=ANSWER_TIMEOUT_S) as tx:
        tx.execute(sa.text("SELECT pg_sleep(60)"))
    works_again(database, 2)
