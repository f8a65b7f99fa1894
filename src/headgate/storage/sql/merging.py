"""The statements of a bulk change: whole sets at a time, in temporary tables and from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable, DropTable

from headgate.feed import Kind
from headgate.storage.sql import schema
from headgate.storage.sql.rows import Stamp
from headgate.storage.sql.transaction import WriteTransaction

_temporary = sa.MetaData()


def _staged(kind: Kind) -> sa.Table:
    of = schema.TABLES[kind].c
    columns = [sa.Column(key, of[key].type) for key in ("id", "body", *schema.DERIVED[kind])]
    return sa.Table(f"staged_{kind.word}", _temporary, *columns, prefixes=["TEMPORARY"])


STAGED = {kind: _staged(kind) for kind in Kind}
STAGED_FACTS = sa.Table(
    "staged_facts",
    _temporary,
    *(sa.Column(column.key, column.type) for column in schema.rule_facts.columns),
    prefixes=["TEMPORARY"],
)
# What differs between what is staged and what is there.
CHANGES = sa.Table(
    "staged_changes",
    _temporary,
    sa.Column("kind", sa.SmallInteger),
    sa.Column("id", schema.Name),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
    prefixes=["TEMPORARY"],
)


def make_tables(connection: sa.Connection) -> None:
    for table in _temporary.sorted_tables:
        connection.execute(CreateTable(table))


def drop_tables(connection: sa.Connection) -> None:
    for table in _temporary.sorted_tables:
        connection.execute(DropTable(table))


def duplicates(connection: sa.Connection, kind: Kind, limit: int) -> list[str]:
    table = STAGED[kind]
    found = sa.select(table.c.id).group_by(table.c.id).having(sa.func.count() > 1).order_by(table.c.id).limit(limit)
    return list(connection.execute(found).scalars())


def index(connection: sa.Connection) -> None:
    """Makes the staged rows quick to join with, once they are all there."""
    for table in (*STAGED.values(), STAGED_FACTS):
        key = "rule" if table is STAGED_FACTS else "id"
        connection.exec_driver_sql(f"CREATE INDEX IF NOT EXISTS {table.name}_{key} ON {table.name} ({key})")
    _analyze(connection, *STAGED.values(), STAGED_FACTS)


def compare(tx: WriteTransaction, prune: Iterable[Kind]) -> tuple[int, int, int, int]:
    """Fills CHANGES; gives how many are created, replaced, deleted and unchanged."""
    tx.execute(sa.delete(CHANGES))
    columns = ["kind", "id", "before", "after"]
    for kind, staged in STAGED.items():
        there = schema.TABLES[kind]
        differing = (
            sa.select(_number(kind), staged.c.id, there.c.body, staged.c.body)
            .select_from(staged.outerjoin(there, there.c.id == staged.c.id))
            .where(there.c.body.is_distinct_from(staged.c.body))
        )
        tx.execute(sa.insert(CHANGES).from_select(columns, differing))
    for kind in prune:
        staged, there = STAGED[kind], schema.TABLES[kind]
        leftover = (
            sa.select(_number(kind), there.c.id, there.c.body, sa.null())
            .select_from(there.outerjoin(staged, there.c.id == staged.c.id))
            .where(staged.c.id.is_(None))
        )
        tx.execute(sa.insert(CHANGES).from_select(columns, leftover))
    _analyze(tx.connection, CHANGES)
    counted = sa.select(
        _count(CHANGES.c.before.is_(None)),
        _count(sa.and_(CHANGES.c.before.is_not(None), CHANGES.c.after.is_not(None))),
        _count(CHANGES.c.after.is_(None)),
    )
    created, replaced, deleted = (int(number or 0) for number in tx.execute(counted).one())
    total = sum(tx.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in STAGED.values())
    return created, replaced, deleted, total - created - replaced


def differences(limit: int | None) -> sa.Select[Any]:
    c = CHANGES.c
    return sa.select(c.kind, c.id, c.before, c.after).order_by(c.kind, c.id).limit(limit)


def apply(tx: WriteTransaction, stamp: Stamp) -> tuple[set[Kind], int]:
    """Rows and log of what CHANGES holds; gives its kinds and its size in bytes."""
    kinds = {Kind(number) for number in tx.execute(sa.select(CHANGES.c.kind).distinct()).scalars()}
    for kind in sorted(kinds):
        _delete(tx, kind)
        _replace(tx, kind, stamp)
        _create(tx, kind, stamp)
    if Kind.RULE in kinds:
        _renew_facts(tx)
    c = CHANGES.c
    logged = sa.select(sa.literal(stamp.version), c.kind, c.id, c.before, c.after).order_by(c.kind, c.id)
    tx.execute(sa.insert(schema.log).from_select(["version", "kind", "id", "before", "after"], logged))
    size = sa.func.length(c.id) + sa.func.coalesce(sa.func.length(c.after), 0)
    return kinds, int(tx.execute(sa.select(sa.func.sum(size))).scalar_one() or 0)


def _delete(tx: WriteTransaction, kind: Kind) -> None:
    table, c = schema.TABLES[kind], CHANGES.c
    gone = sa.select(c.id).where(c.kind == int(kind), c.after.is_(None))
    tx.execute(sa.delete(table).where(table.c.id.in_(gone)))


def _replace(tx: WriteTransaction, kind: Kind, stamp: Stamp) -> None:
    table, staged, c = schema.TABLES[kind], STAGED[kind], CHANGES.c
    taken = {table.c[key]: staged.c[key] for key in ("body", *schema.DERIVED[kind])}
    stamped = {table.c.version: stamp.version, table.c.updated: stamp.at, table.c.updated_by: stamp.who}
    both = sa.and_(c.kind == int(kind), c.before.is_not(None), c.after.is_not(None))
    tx.execute(
        sa.update(table).values({**taken, **stamped}).where(table.c.id == staged.c.id, c.id == staged.c.id, both)
    )


def _create(tx: WriteTransaction, kind: Kind, stamp: Stamp) -> None:
    table, staged, c = schema.TABLES[kind], STAGED[kind], CHANGES.c
    taken = ("id", "body", *schema.DERIVED[kind])
    at = sa.literal(stamp.at, table.c.created.type)
    new = (
        sa.select(
            *(staged.c[key] for key in taken),
            sa.literal(stamp.version),
            at.label("created"),
            sa.literal(stamp.who).label("created_by"),
            at.label("updated"),
            sa.literal(stamp.who).label("updated_by"),
        )
        .select_from(staged.join(CHANGES, c.id == staged.c.id))
        .where(c.kind == int(kind), c.before.is_(None))
        .order_by(staged.c.id)
    )
    columns = [table.c[key] for key in (*taken, "version", "created", "created_by", "updated", "updated_by")]
    tx.execute(sa.insert(table).from_select(columns, new))


def _renew_facts(tx: WriteTransaction) -> None:
    facts, staged, c = schema.rule_facts, STAGED_FACTS.c, CHANGES.c
    old = sa.select(c.id).where(c.kind == int(Kind.RULE), c.before.is_not(None))
    tx.execute(sa.delete(facts).where(facts.c.rule.in_(old)))
    new = (
        sa.select(staged.fact, staged.value, staged.rule)
        .select_from(STAGED_FACTS.join(CHANGES, c.id == staged.rule))
        .where(c.kind == int(Kind.RULE))
        .order_by(staged.fact, staged.value, staged.rule)
    )
    tx.execute(sa.insert(facts).from_select(["fact", "value", "rule"], new))


def _number(kind: Kind) -> sa.ColumnElement[int]:
    return sa.literal(int(kind), sa.SmallInteger)


def _count(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((condition, 1), else_=0))


def _analyze(connection: sa.Connection, *tables: sa.Table) -> None:
    """PostgreSQL knows nothing of temporary tables until it is told to look."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"ANALYZE {', '.join(table.name for table in tables)}")
