"""Engines for either kind of database: how to connect, how long to wait, what to set on each connection."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headgate.errors import ConfigError

POOL_SIZE = 8
POOL_OVERFLOW = 8
POOL_TIMEOUT_S = 5.0
# How long a database may take to answer one statement before it counts as down.
ANSWER_TIMEOUT_S = 10.0
# A server that lost its client in the middle of a long statement gives THE lock back within this.
CLIENT_CHECK_MS = 2_000
SQLITE_CACHE_KIB = 16_384
SQLITE_JOURNAL_BYTES = 64 * 1024 * 1024

POSTGRES_SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")
SQLITE_SCHEME = "sqlite:///"
EXPECTED = "expected postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///PATH"

T = TypeVar("T")


class TimedConnection(psycopg.Connection[Any]):
    """Waits for an answer only so long: a server that hangs keeps its connections open and says nothing."""

    limit_s = ANSWER_TIMEOUT_S

    def __del__(self, *_: Any) -> None:
        # One that broke while it was lent out is let go by whoever notices; the driver would warn of that.
        with contextlib.suppress(Exception):
            self.close()

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Drivers wake it every tenth of a second with nothing; that is when it looks at the clock."""
        end_s = time.monotonic() + self.limit_s
        try:
            state = next(gen)
            while True:
                ready = yield state
                if not ready and time.monotonic() > end_s:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer within {self.limit_s:g} s")
                state = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer


def is_postgres(url: str) -> bool:
    return url.startswith(POSTGRES_SCHEMES)


def make_engine(url: str, connect_timeout_s: float) -> sa.Engine:
    """Raises ConfigError for a URL that cannot be meant; never with any part of a password."""
    if is_postgres(url):
        return _postgres_engine(url, connect_timeout_s)
    if url.startswith(SQLITE_SCHEME):
        return _sqlite_engine(sqlite_path(url))
    scheme = url.partition(":")[0] if "://" in url else "no scheme"
    raise ConfigError(f"the database URL has {scheme[:20]!r} before its address; {EXPECTED}")


def postgres_connector(url: str, connect_timeout_s: float) -> Callable[[], TimedConnection]:
    """Its connections commit by themselves: transactions are begun in so many words, the same on both databases."""
    conninfo = _conninfo(url, connect_timeout_s)

    def connect() -> TimedConnection:
        connection = TimedConnection.connect(conninfo, autocommit=True)
        connection.limit_s = max(connect_timeout_s, 1.0)
        try:
            connection.execute("SET timezone = 'UTC'")
            # A server on a system without the means for it refuses the setting; it is a comfort, no more.
            with contextlib.suppress(psycopg.errors.InvalidParameterValue):
                connection.execute(f"SET client_connection_check_interval = {CLIENT_CHECK_MS}".encode())
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def shown_url(url: str) -> str:
    """For messages: where, and nothing else."""
    if not is_postgres(url):
        return url
    parts = _parts(url)
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
    return f"postgresql://{place}/{parts.get('dbname', '')}"


def password_of(url: str) -> str | None:
    if not is_postgres(url):
        return None
    password = _parts(url).get("password")
    return None if password is None else str(password)


def sqlite_path(url: str) -> Path:
    path = url[len(SQLITE_SCHEME) :].partition("?")[0]
    if not path or path == ":memory:":
        raise ConfigError("a database in memory would be lost with its process; give a file: sqlite:///headgate.db")
    if "\0" in path:
        raise ConfigError("the path of the database holds a NUL character; leave it out")
    return Path(path)


def _parts(url: str) -> dict[str, Any]:
    """As libpq reads a URL. What it says of a bad one may quote a part of the password, so nobody hears it."""
    scheme = next(scheme for scheme in POSTGRES_SCHEMES if url.startswith(scheme))
    try:
        parts = conninfo_to_dict("postgresql://" + url[len(scheme) :])
        ports = str(parts.get("port") or "5432").split(",")
        # A password with an @ in it shows up in the host.
        if all(port.isdecimal() or not port for port in ports) and "@" not in str(parts.get("host", "")):
            return dict(parts)
    except psycopg.ProgrammingError:
        pass
    hint = "characters such as @ : / % in a user or password are written %40 %3A %2F %25"
    raise ConfigError(f"the database URL cannot be read; {EXPECTED}; {hint}")


def _conninfo(url: str, connect_timeout_s: float) -> str:
    return make_conninfo(
        "",
        **{
            "application_name": "headgate",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            **_parts(url),
            # libpq counts whole seconds, and takes 1 for 2.
            "connect_timeout": max(2, round(connect_timeout_s)),
        },
    )


def _postgres_engine(url: str, connect_timeout_s: float) -> sa.Engine:
    return sa.create_engine(
        "postgresql+psycopg://",
        creator=postgres_connector(url, connect_timeout_s),
        isolation_level="AUTOCOMMIT",
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=POOL_TIMEOUT_S,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _sqlite_engine(path: Path) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        if not path.parent.is_dir():
            raise ConfigError(f"{path}: there is no folder {path.parent}; make it first")
        _make_private(path)
        connection = sqlite3.connect(path, timeout=ANSWER_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA cache_size = -{SQLITE_CACHE_KIB}")
            # What a very large change wrote ahead is given back once it is in the file itself.
            connection.execute(f"PRAGMA journal_size_limit = {SQLITE_JOURNAL_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    return sa.create_engine(
        "sqlite://",
        creator=connect,
        poolclass=sa.QueuePool,
        isolation_level="AUTOCOMMIT",
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=POOL_TIMEOUT_S,
        hide_parameters=True,
    )


def _make_private(path: Path) -> None:
    """Hashes of keys are in it: its owner's alone from the first moment. SQLite's other files get the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigError(f"{path}: cannot be made: {error.strerror or error}") from None
