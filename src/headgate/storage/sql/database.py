"""The control plane's database: PostgreSQL, or a file of SQLite."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import sqlalchemy as sa

from headgate.errors import ConfigError, OutcomeUnknown, StorageDown
from headgate.feed import Position
from headgate.storage.sql import driver, revisions, schema
from headgate.storage.sql.failures import told_plainly
from headgate.storage.sql.listen import Listener
from headgate.storage.sql.transaction import Transaction, WriteTransaction

CONNECT_TIMEOUT_S = 5.0
MIGRATE_TIMEOUT_S = 600.0
_GRACE_MS = 500
# A filter may pick out one rule or a million: a plan made for any value is a bad one for most.
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL plan_cache_mode = force_custom_plan"

_LEDGER = sa.select(schema.ledger.c.epoch, schema.ledger.c.version)
# The first eight digits of a WAL file's name are the timeline, which everybody may ask for.
_TIMELINE = sa.func.substr(sa.func.pg_walfile_name(sa.func.pg_current_wal_lsn()), 1, 8)
_LOCKED = sa.select(*_LEDGER.selected_columns, schema.ledger.c.timeline, _TIMELINE.label("now")).with_for_update()


class Database:
    """Safe to share between threads. Connects when it is first asked something, and again whenever that is needed.

    Raises StorageDown when the database does not answer in time, and works again as soon as it does.
    """

    def __init__(self, url: str, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self._url = url
        self._place = driver.shown_url(url)
        self._password = driver.password_of(url)
        self._connect_timeout_s = connect_timeout_s
        self._engine = driver.make_engine(url, connect_timeout_s)
        self.is_postgres = driver.is_postgres(url)
        # SQLite's own queue of writers is not in order and sleeps long; threads of one process stand in this one first.
        self._turn: threading.Lock | None = None if self.is_postgres else threading.Lock()

    def __repr__(self) -> str:
        return f"Database({self._place})"

    @property
    def place(self) -> str:
        """For messages: the URL without user or password."""
        return self._place

    @contextmanager
    def read(self, *, timeout_s: float = driver.ANSWER_TIMEOUT_S) -> Iterator[Transaction]:
        """A consistent view; `timeout_s` is for each answer, not for all of them."""
        with self._transaction(_BEGIN_READ if self.is_postgres else "BEGIN", timeout_s) as connection:
            yield Transaction(connection, _head(connection, _LEDGER))

    @contextmanager
    def write(self, *, timeout_s: float = driver.ANSWER_TIMEOUT_S) -> Iterator[WriteTransaction]:
        """Waits for THE lock, at most `timeout_s`; commits when the block is left, unless by an error."""
        with self.connect() as connection, self.write_on(connection, timeout_s=timeout_s) as tx:
            yield tx

    @contextmanager
    def aside(self, *, timeout_s: float = driver.ANSWER_TIMEOUT_S) -> Iterator[Transaction]:
        """For writing what is no part of the configuration: tokens, calls, the fleet, publications. Takes no version,
        and on PostgreSQL not THE lock."""
        with self._in_turn(timeout_s), self._transaction(self._begin_write, timeout_s) as connection:
            yield Transaction(connection, _head(connection, _LEDGER))

    @contextmanager
    def write_on(
        self, connection: sa.Connection, *, timeout_s: float = driver.ANSWER_TIMEOUT_S
    ) -> Iterator[WriteTransaction]:
        """`write` on a connection that has been prepared for it, with temporary tables for instance."""
        with self._in_turn(timeout_s), self._begun(connection, self._begin_write, timeout_s):
            if not self.is_postgres:
                yield WriteTransaction(connection, _head(connection, _LEDGER))
                return
            row = connection.execute(_LOCKED).one()
            tx = WriteTransaction(connection, Position(row.epoch, row.version))
            if row.timeline != row.now:
                tx.follow_timeline(row.timeline, row.now)
            yield tx

    @contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """A connection outside any transaction. Errors are told plainly."""
        with told_plainly(self._place, self._password), self._engine.connect() as connection:
            yield connection

    def listener(self) -> Listener | None:
        """Wakes who waits for a change made elsewhere. SQLite has no such thing: look every now and then."""
        if not self.is_postgres:
            return None
        connect = driver.postgres_connector(self._url, self._connect_timeout_s)
        return Listener(connect, self._place, self._password)

    def schema_state(self) -> revisions.SchemaState:
        with self.connect() as connection:
            return revisions.state_of(connection)

    def migrate(self, revision: str = revisions.HEAD) -> None:
        """To the tables of this version of Headgate, or of another. Any number of processes may do so at once."""
        if revision not in (revisions.BASE, *revisions.REVISIONS):
            raise ConfigError(f"there is no schema revision {revision!r}; expected {', '.join(revisions.REVISIONS)}")
        begin = "BEGIN" if self.is_postgres else "BEGIN EXCLUSIVE"
        with self._in_turn(MIGRATE_TIMEOUT_S), self._transaction(begin, MIGRATE_TIMEOUT_S) as connection:
            if self.is_postgres:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(revisions.ADVISORY_LOCK)))
            state = revisions.state_of(connection)
            if state == "newer":
                raise ConfigError(f"{self._place}: its tables were made by a newer Headgate; upgrade this one")
            if state != "current" or revision != revisions.HEAD:
                revisions.migrate(connection, revision)

    def close(self) -> None:
        self._engine.dispose()

    @property
    def _begin_write(self) -> str:
        return "BEGIN" if self.is_postgres else "BEGIN IMMEDIATE"

    @contextmanager
    def _transaction(self, begin: str, timeout_s: float) -> Iterator[sa.Connection]:
        with self.connect() as connection, self._begun(connection, begin, timeout_s):
            yield connection

    @contextmanager
    def _begun(self, connection: sa.Connection, begin: str, timeout_s: float) -> Iterator[None]:
        timed = connection.connection.dbapi_connection
        usual_s = timed.limit_s if isinstance(timed, driver.TimedConnection) else 0.0
        if isinstance(timed, driver.TimedConnection):
            # The server gives up first, so that the connection survives: on THE lock, then on anything else. The client
            # gives up on a server that hangs.
            timed.limit_s = timeout_s + 2 * _GRACE_MS / 1_000
            limit_ms = round(timeout_s * 1_000)
            # What is streamed is read to its end: plans that give the first rows soonest are the wrong ones.
            limits = {"statement_timeout": limit_ms + _GRACE_MS, "lock_timeout": limit_ms, "cursor_tuple_fraction": 1}
            begin += "".join(f"; SET LOCAL {name} = {value}" for name, value in limits.items())
        else:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(timeout_s * 1_000)}")
        try:
            connection.exec_driver_sql(begin)
            yield
            self._commit(connection, is_write="READ ONLY" not in begin)
        except BaseException:
            _give_up(connection)
            raise
        finally:
            if isinstance(timed, driver.TimedConnection):
                timed.limit_s = usual_s

    def _commit(self, connection: sa.Connection, *, is_write: bool) -> None:
        try:
            connection.commit()
        except (sa.exc.DBAPIError, psycopg.Error) as error:
            cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
            if not is_write or not isinstance(cause, psycopg.OperationalError):
                raise
            words = "went away while the change was being made; it may or may not have been: look before trying again"
            raise OutcomeUnknown(f"{self._place}: {words}") from None

    @contextmanager
    def _in_turn(self, timeout_s: float) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=timeout_s):
            raise StorageDown(f"{self._place}: another change is being made and takes long; try again in a moment")
        try:
            yield
        finally:
            self._turn.release()


def _give_up(connection: sa.Connection) -> None:
    """What the block raised matters more than what rolling back might."""
    try:
        connection.rollback()
    except Exception:
        connection.invalidate()


def _head(connection: sa.Connection, ledger: sa.Select[tuple[int, int]]) -> Position:
    row = connection.execute(ledger).one()
    return Position(row.epoch, row.version)
