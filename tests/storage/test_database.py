"""Opening a database: what is refused, what is hidden, what the file may be read by."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import headgate
from headgate.errors import ConfigError, StorageDown
from headgate.feed import Kind
from headgate.storage.sql import Database, entries
from tests.servers.postgres import PASSWORD, Postgres
from tests.storage.made import change, put_rule


def test_a_url_of_another_kind_is_refused_with_what_is_expected() -> None:
    with pytest.raises(ConfigError, match="expected postgresql://"):
        Database("mysql://root:hush@localhost/x")


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="give a file"):
        Database(url)


@pytest.mark.parametrize("url", ["postgresql://ada:hu%sh@h/x", "postgres://ada:@hush@h/x", "postgresql://h:hush"])
def test_a_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    with pytest.raises((ConfigError, StorageDown)) as raised:
        Database(url, connect_timeout_s=2).schema_state()
    assert "hush" not in str(raised.value)
    assert "hu%sh" not in str(raised.value)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no folder .*absent; make it first"):
        Database(f"sqlite:///{tmp_path}/absent/x.db").schema_state()


def test_a_relative_path_is_relative_to_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    database = Database("sqlite:///here.db")
    database.migrate()
    database.close()
    assert (tmp_path / "here.db").exists()


def test_files_of_sqlite_are_their_owners_alone(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/x.db")
    database.migrate()
    change(database, put_rule("a"))
    files = list(tmp_path.iterdir())
    assert len(files) > 1
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    database.close()


def test_a_file_that_is_no_database_is_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("what is this? " * 1_000)
    with pytest.raises(StorageDown, match="not a database"):
        Database(f"sqlite:///{tmp_path}/x.db").schema_state()


def test_a_database_without_tables_says_what_makes_them(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.empty_database()
    for where in (url, f"sqlite:///{tmp_path}/x.db"):
        database = Database(where)
        assert database.schema_state() == "empty"
        with pytest.raises(ConfigError, match="headgate control"), database.read():
            pass
        database.close()
    postgres.drop_database(url)


def test_a_password_is_nowhere_to_be_seen(postgres: Postgres) -> None:
    wrong = postgres.url().replace(PASSWORD, "hush-hush")
    database = Database(wrong)
    with pytest.raises(StorageDown, match="password authentication failed") as raised, database.read():
        pass
    assert raised.value.__cause__ is None
    for shown in (repr(database), str(raised.value), repr(raised.value), database.place):
        assert "hush-hush" not in shown
    database.close()


def test_a_change_whose_block_fails_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError, match="second thoughts"), database.write() as tx:
        tx.commit_version("ada", None, "create", [put_rule("a")])
        raise RuntimeError("second thoughts")
    with database.read() as tx:
        assert tx.head.version == 0
        assert entries.get(tx, Kind.RULE, "a") is None
    assert change(database, put_rule("a")) == 1


def test_a_reader_sees_one_state_throughout(database: Database) -> None:
    change(database, put_rule("a"))
    with database.read() as tx:
        change(database, put_rule("b"))
        assert tx.head.version == 1
        assert entries.get(tx, Kind.RULE, "b") is None
    with database.read() as tx:
        assert entries.get(tx, Kind.RULE, "b") is not None


def test_a_writer_that_waits_too_long_is_told_to_try_again(database: Database) -> None:
    with (
        database.write() as _,
        pytest.raises(StorageDown, match="another change is being made"),
        database.write(timeout_s=0.1),
    ):
        pass


def test_a_writer_of_another_process_is_waited_for_as_well(database_url: str, database: Database) -> None:
    other = Database(database_url)
    with database.write() as _, pytest.raises(StorageDown), other.write(timeout_s=0.1):
        pass
    assert change(other, put_rule("a")) == 1
    other.close()


def test_a_new_epoch_is_newer_than_anything_before(database: Database) -> None:
    change(database, put_rule("a"))
    with database.write() as tx:
        old = tx.head
        new = tx.new_epoch()
    assert new > old
    assert new.version == old.version
    with database.read() as tx:
        assert tx.head == new


def test_another_history_of_the_server_begins_a_new_epoch_before_a_version_is_given_out(
    postgres_url: str, postgres: Postgres
) -> None:
    database = Database(postgres_url)
    change(database, put_rule("a"))
    with database.write() as tx:
        old = tx.head
        assert not tx.has_gone_back
    # As after a recovery to a point in time, or on a standby that was promoted: the server is on another timeline.
    name = postgres_url.rpartition("/")[2]
    postgres.execute("UPDATE ledger SET timeline = '000000FF'", name)
    with database.write() as tx:
        assert tx.has_gone_back
        assert (tx.head.epoch > old.epoch, tx.head.version) == (True, old.version)
        new = tx.head
    with database.write() as tx:
        assert (tx.head, tx.has_gone_back) == (new, False)
    database.close()


def test_a_listener_hears_of_changes_made_elsewhere(postgres_url: str) -> None:
    database, other = Database(postgres_url), Database(postgres_url)
    listener = database.listener()
    assert listener is not None
    assert listener.wait(5)  # has just connected: something may have been missed
    assert not listener.wait(0.05)
    change(other, put_rule("a"))
    assert listener.wait(20)
    listener.close()
    database.close()
    other.close()


def test_sqlite_has_no_listener(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    assert database.listener() is None
    database.close()


def test_a_limiter_needs_no_driver() -> None:
    program = (
        "import sys, headgate, headgate.middleware, headgate.feed.codec;"
        "found = {'sqlalchemy', 'alembic', 'psycopg', 'redis'} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_only_storage_knows_drivers() -> None:
    package = Path(headgate.__file__).parent
    driver = re.compile(r"^\s*(import|from) (sqlalchemy|alembic|psycopg|redis|sqlite3)\b", re.MULTILINE)
    others = [file for file in package.rglob("*.py") if package / "storage" not in file.parents]
    assert [file.name for file in others if driver.search(file.read_text())] == []


def test_a_database_that_is_current_is_used_without_importing_alembic(sqlite_url: str) -> None:
    program = (
        "import sys; from headgate.storage.sql import Database; d = Database(sys.argv[1]);"
        "assert d.schema_state() == 'current'; d.migrate(); assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, sqlite_url], check=True, timeout=60)
