"""Databases for tests: one PostgreSQL a session, a fresh database a test. `tests/conftest.py` shows them to all."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headgate.storage.sql import Database
    from tests.servers.postgres import Postgres

EVERY_DATABASE = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Shared by the whole session: a test that stops or hangs it puts it back. Better: start one's own."""
    from tests.servers.postgres import Postgres

    with Postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A fresh database with Headgate's tables."""
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from headgate.storage.sql import Database

    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    database.close()
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh file with Headgate's tables."""
    path = tmp_path / "headgate.db"
    shutil.copy(sqlite_template, path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        # A database of its own has an epoch of its own.
        connection.execute("UPDATE ledger SET epoch = ?", (time.time_ns() // 1_000,))
    return f"sqlite:///{path}"


@pytest.fixture(params=EVERY_DATABASE)
def database_url(request: pytest.FixtureRequest) -> str:
    """Once for each kind of database."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Once for each kind of database: open, with tables, empty."""
    from headgate.storage.sql import Database

    opened = Database(database_url)
    yield opened
    opened.close()
