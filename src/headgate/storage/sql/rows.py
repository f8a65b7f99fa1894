"""Writing the rows of the kinds' tables, for changes of ordinary size; `bulk` does the large ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headgate.feed import Kind
from headgate.storage.sql import schema
from headgate.storage.sql.columns import derived, facts
from headgate.storage.sql.loading import load

# Either database takes tens of thousands of parameters a statement; this leaves room.
IDS_A_STATEMENT = 500
LOADED_FROM = 50

_STAMPED = ("version", "created", "created_by", "updated", "updated_by")


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who wrote a row, when, as part of which version."""

    version: int
    at: datetime
    who: str


@dataclass(frozen=True, slots=True)
class Put:
    """A body to be written, as text and read. `is_new` when there was no such entry before."""

    id: str
    text: str
    body: Mapping[str, Any]
    is_new: bool


def put(connection: sa.Connection, kind: Kind, entries: Sequence[Put], stamp: Stamp) -> None:
    """A row that was there keeps who created it, and when."""
    new = [entry for entry in entries if entry.is_new]
    # Many new rows go by the fast way, few by the one that needs no second look.
    loaded = new if len(new) >= LOADED_FROM else []
    if loaded:
        columns = ("id", "body", *schema.DERIVED[kind], *_STAMPED)
        rows = [tuple(_values(kind, entry, stamp).values()) for entry in loaded]
        load(connection, schema.TABLES[kind], columns, rows)
    others = [_values(kind, entry, stamp) for entry in entries if not (loaded and entry.is_new)]
    if others:
        connection.execute(_upsert(connection.dialect.name, kind), others)
    if kind is Kind.RULE:
        _delete_facts(connection, [entry.id for entry in entries if not entry.is_new])
        found = [(fact, value, entry.id) for entry in entries for fact, value in facts(entry.body)]
        put_many(connection, schema.rule_facts, ("fact", "value", "rule"), found)


def put_many(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """New rows, few or many."""
    if len(rows) >= LOADED_FROM:
        load(connection, table, columns, rows)
    elif rows:
        connection.execute(table.insert(), [dict(zip(columns, row, strict=True)) for row in rows])


def delete(connection: sa.Connection, kind: Kind, ids: Sequence[str]) -> None:
    table = schema.TABLES[kind]
    for some in _portions(ids):
        connection.execute(sa.delete(table).where(table.c.id.in_(some)))
    if kind is Kind.RULE:
        _delete_facts(connection, ids)


def _values(kind: Kind, entry: Put, stamp: Stamp) -> dict[str, Any]:
    stamped = (stamp.version, stamp.at, stamp.who, stamp.at, stamp.who)
    columns = derived(kind, entry.id, entry.body)
    return {"id": entry.id, "body": entry.text, **columns, **dict(zip(_STAMPED, stamped, strict=True))}


@cache
def _upsert(dialect: str, kind: Kind) -> sa.Insert:
    table = schema.TABLES[kind]
    renewed = ("body", *schema.DERIVED[kind], "version", "updated", "updated_by")
    if dialect == "postgresql":
        insert = postgresql.insert(table)
        return insert.on_conflict_do_update(
            index_elements=[table.c.id], set_={table.c[name]: insert.excluded[name] for name in renewed}
        )
    other = sqlite.insert(table)
    return other.on_conflict_do_update(
        index_elements=[table.c.id], set_={table.c[name]: other.excluded[name] for name in renewed}
    )


def _delete_facts(connection: sa.Connection, ids: Sequence[str]) -> None:
    for some in _portions(ids):
        connection.execute(sa.delete(schema.rule_facts).where(schema.rule_facts.c.rule.in_(some)))


def _portions(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[at : at + IDS_A_STATEMENT] for at in range(0, len(ids), IDS_A_STATEMENT)]
