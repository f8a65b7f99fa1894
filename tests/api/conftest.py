from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.storage.sql import Database
from tests.api.plane import Plane, make_plane


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    opened = Database(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
def plane(sqlite: Database) -> Iterator[Plane]:
    """Over SQLite, without limits of its own."""
    with make_plane(sqlite) as made:
        yield made


@pytest.fixture
def any_plane(database: Database) -> Iterator[Plane]:
    """Once for each kind of database."""
    with make_plane(database) as made:
        yield made
