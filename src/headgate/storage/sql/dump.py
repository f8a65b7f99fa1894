"""Whole tables out and in, for backups. Rows are plain data, ready for JSON; times are texts.

What is taken from a body (columns, a rule's facts) is no part of it: it is taken again when rows come in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from headgate.errors import ConfigError
from headgate.feed import Kind, Position
from headgate.storage.sql import schema
from headgate.storage.sql.columns import check_id, check_text, derived, facts
from headgate.storage.sql.loading import load, portions
from headgate.storage.sql.moments import Moment, moment_of, text_of
from headgate.storage.sql.transaction import Transaction, WriteTransaction

ROWS_A_PORTION = 5_000
_KINDS = {table.name: kind for kind, table in schema.TABLES.items()}
_OTHERS = {table.name: table for table in (schema.versions, schema.log, schema.tokens)}

# In the order they are written and read in. Calls, fleet, publications and outbox belong to where they were made.
TABLES = ("versions", "log", *_KINDS, "tokens")


def read(tx: Transaction, table: str) -> Iterator[dict[str, Any]]:
    """Every row, as a stream, in the order of its key."""
    whole = _table(table)
    keys = _columns(table)
    for row in tx.stream(sa.select(*(whole.c[key] for key in keys)).order_by(*whole.primary_key.columns)):
        yield {key: _out(value) for key, value in zip(keys, row, strict=True) if value is not None}


def count(tx: Transaction, table: str) -> int:
    found: int = tx.execute(sa.select(sa.func.count()).select_from(_table(table))).scalar_one()
    return found


def write(tx: WriteTransaction, table: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Adds rows as `read` gave them; gives how many. Raises ConfigError for what is no such row."""
    columns = _columns(table)
    kind = _KINDS.get(table)
    count = 0
    for portion in portions(rows, ROWS_A_PORTION):
        plain = [_in(table, row, columns) for row in portion]
        if kind is None:
            load(tx.connection, _table(table), columns, plain)
        else:
            _write_entries(tx, kind, columns, plain)
        count += len(portion)
    return count


def is_empty(tx: Transaction) -> bool:
    """Whether nothing was ever changed here, tokens aside."""
    return tx.head.version == 0


def clear(tx: WriteTransaction, table: str) -> None:
    tx.execute(sa.delete(_table(table)))
    if _KINDS.get(table) is Kind.RULE:
        tx.execute(sa.delete(schema.rule_facts))


def take_position(tx: WriteTransaction, version: int) -> Position:
    """After the history was written: the ledger stands at `version`, in a new epoch, and regions need a snapshot."""
    tx.execute(sa.delete(schema.outbox))
    tx.head = Position(tx.head.epoch, version)
    return tx.new_epoch()


def _write_entries(tx: WriteTransaction, kind: Kind, columns: list[str], rows: list[list[Any]]) -> None:
    id_at, body_at = columns.index("id"), columns.index("body")
    loaded, found = [], []
    for row in rows:
        entry_id, text = row[id_at], row[body_at]
        check_id(kind, entry_id)
        body = json.loads(check_text(text, f"{kind.word} {entry_id[:60]!r}"))
        loaded.append([*row, *derived(kind, entry_id, body).values()])
        if kind is Kind.RULE:
            found += [(fact, value, entry_id) for fact, value in facts(body)]
    load(tx.connection, schema.TABLES[kind], [*columns, *schema.DERIVED[kind]], loaded)
    if found:
        load(tx.connection, schema.rule_facts, ("fact", "value", "rule"), found)


def _table(name: str) -> sa.Table:
    if name in _KINDS:
        return schema.TABLES[_KINDS[name]]
    if name not in _OTHERS:
        raise ConfigError(f"a backup has no table {name[:60]!r}; expected one of {', '.join(TABLES)}")
    return _OTHERS[name]


def _columns(name: str) -> list[str]:
    kind = _KINDS.get(name)
    left_out = () if kind is None else schema.DERIVED[kind]
    return [column.key for column in _table(name).columns if column.key not in left_out]


def _out(value: Any) -> Any:
    return text_of(value) if isinstance(value, datetime) else value


def _in(table: str, row: Mapping[str, Any], columns: list[str]) -> list[Any]:
    unknown = row.keys() - set(columns)
    if unknown:
        raise ConfigError(f"a row of {table} has {', '.join(sorted(unknown))[:100]}, which this Headgate does not know")
    return [_value(table, _table(table).c[key], row.get(key)) for key in columns]


def _value(table: str, column: sa.Column[Any], value: Any) -> Any:
    """As the column takes it, or ConfigError: a file may say anything."""
    where = f"a row of {table}: {column.key}"
    if value is None:
        if column.nullable:
            return None
        raise ConfigError(f"{where} is missing")
    if isinstance(column.type, Moment):
        try:
            return moment_of(value)
        except ValueError:
            raise ConfigError(f"{where}: {str(value)[:60]!r} is no time") from None
    expected = int if isinstance(column.type, sa.Integer) else str
    if not isinstance(value, expected) or isinstance(value, bool):
        raise ConfigError(f"{where}: {str(value)[:60]!r} is not what belongs there")
    return check_text(value, where) if isinstance(value, str) else value
