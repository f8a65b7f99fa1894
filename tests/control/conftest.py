"""A control plane's changes over each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.control.changes import Changes
from headgate.feed import Position
from headgate.storage.sql import Database

KEY_SECRET = b"a secret of thirty-two bytes or more"


class Heard:
    """What `committed` was told."""

    def __init__(self) -> None:
        self.positions: list[Position] = []

    def __call__(self, position: Position) -> None:
        self.positions.append(position)


@pytest.fixture
def opened(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def changes(opened: Database, heard: Heard) -> Changes:
    return Changes(opened, key_secret=KEY_SECRET, committed=heard)


@pytest.fixture
def lite(sqlite_url: str) -> Iterator[Changes]:
    """On SQLite alone: for what no database has a say in."""
    database = Database(sqlite_url)
    yield Changes(database, key_secret=KEY_SECRET)
    database.close()
