"""What is still to be published, and how far each region has been told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headgate.feed import START, Position
from headgate.storage.sql import schema
from headgate.storage.sql.moments import now
from headgate.storage.sql.transaction import Transaction

PENDING_MAX = 10_000
# Kept when every region has them, or there is none: who looks sees what went out last.
KEPT = 1_000
ERROR_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class Pending:
    """A version to be published. `urgent` when it holds a block or a switch."""

    position: Position
    at: datetime
    changes: int
    bytes: int
    urgent: bool


@dataclass(frozen=True, slots=True)
class Region:
    """`published` is when `position` was; `error` says what is wrong since `failed`."""

    name: str
    position: Position
    published: datetime | None
    error: str | None
    failed: datetime | None


def pending(tx: Transaction, region: str, limit: int = PENDING_MAX) -> list[Pending]:
    """In order. Everything there is, for a region never told or last told of another epoch: it needs a snapshot."""
    told = position(tx, region)
    after = told.version if told.epoch == tx.head.epoch else -1
    table = schema.outbox
    found = sa.select(table).where(table.c.version > after).order_by(table.c.version).limit(min(limit, PENDING_MAX))
    return [
        Pending(Position(row.epoch, row.version), row.at, row.changes, row.bytes, row.urgent)
        for row in tx.execute(found)
    ]


def position(tx: Transaction, region: str) -> Position:
    """The last a region was told of; START for one never told."""
    table = schema.publications.c
    row = tx.execute(sa.select(table.epoch, table.version).where(table.region == region)).one_or_none()
    return START if row is None else Position(row.epoch, row.version)


def published(tx: Transaction, region: str, to: Position, *, error: str | None = None) -> None:
    """Told of `to`; or, with an error, still at `to`. Two publishers may both say so: the newest position stays."""
    insert = postgresql.insert if tx.is_postgres else sqlite.insert
    at = now()
    values: dict[str, Any] = {"region": region, "epoch": to.epoch, "version": to.version}
    values |= {"error": error[:ERROR_CHARS_MAX], "failed": at} if error else {"published": at}
    there = schema.publications.c
    statement: Any = insert(schema.publications).values(**values)
    if error:
        renewed = {
            "error": statement.excluded.error,
            # The row that was offered has it in the column's own form; a bare value would not be.
            "failed": sa.func.coalesce(there.failed, statement.excluded.failed),
        }
        where = None
    else:
        names = ("epoch", "version", "published")
        renewed = {**{name: statement.excluded[name] for name in names}, "error": None, "failed": None}
        where = sa.tuple_(there.epoch, there.version) <= sa.tuple_(statement.excluded.epoch, statement.excluded.version)
    tx.execute(statement.on_conflict_do_update(index_elements=[there.region], set_=renewed, where=where))


def regions(tx: Transaction) -> list[Region]:
    table = schema.publications
    return [
        Region(row.region, Position(row.epoch, row.version), row.published, row.error, row.failed)
        for row in tx.execute(sa.select(table).order_by(table.c.region))
    ]


def forget(tx: Transaction, region: str) -> None:
    """For a region that is no longer there: nothing is kept for it."""
    tx.execute(sa.delete(schema.publications).where(schema.publications.c.region == region))


def prune(tx: Transaction) -> int:
    """Deletes what every region has, save the newest; gives how many rows. What was changed stays in the log."""
    behind = min((region.position.version for region in regions(tx)), default=tx.head.version)
    upto = min(behind, tx.head.version - KEPT)
    done = tx.execute(sa.delete(schema.outbox).where(schema.outbox.c.version <= upto))
    return done.rowcount
