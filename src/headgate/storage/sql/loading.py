"""Many rows into one table, as fast as each database takes them, in bounded memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import sql

from headgate.storage.sql.moments import Moment, text_of

ROWS_A_PORTION = 10_000

T = TypeVar("T")


def load(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Rows hold the values of `columns` (their keys), in that order. Gives how many there were."""
    if connection.dialect.name == "postgresql":
        return _copy(connection, table, columns, rows)
    return _insert(connection, table, columns, rows)


def portions(rows: Iterable[T], size: int = ROWS_A_PORTION) -> Iterator[list[T]]:
    rest = iter(rows)
    while portion := list(islice(rest, size)):
        yield portion


def _insert(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Past SQLAlchemy, which would make a mapping of every row."""
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, sqlite3.Connection)
    named = ", ".join(f'"{table.c[key].name}"' for key in columns)
    statement = f'INSERT INTO "{table.name}" ({named}) VALUES ({", ".join("?" * len(columns))})'
    times = [at for at, key in enumerate(columns) if isinstance(table.c[key].type, Moment)]
    return raw.executemany(statement, (_with_texts(row, times) for row in rows) if times else rows).rowcount


def _with_texts(row: Sequence[Any], times: list[int]) -> list[Any]:
    written = list(row)
    for at in times:
        if written[at] is not None:
            written[at] = text_of(written[at])
    return written


def _copy(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, psycopg.Connection)
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), sql.SQL(", ").join(sql.Identifier(table.c[key].name) for key in columns)
    )
    count = 0
    with raw.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)
            count += 1
    return count
