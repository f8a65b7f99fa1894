"""The log: who changed what, when and why; what it was before; what it was at any version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from headgate.feed import Entry, Kind
from headgate.storage.sql import schema
from headgate.storage.sql.columns import is_storable
from headgate.storage.sql.transaction import Changed, Transaction

# One more than a page holds: whether it comes says whether there is another page.
PAGE_ROWS_MAX = 1_001


@dataclass(frozen=True, slots=True)
class Version:
    """One change. `changes` is how many entries it touched, `bytes` how large they are."""

    version: int
    epoch: int
    at: datetime
    who: str
    why: str | None
    verb: str
    changes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one entry."""

    version: Version
    change: Changed


@dataclass(frozen=True, slots=True)
class TooLarge:
    """There is more than the caller would take."""

    changes: int
    bytes: int


def versions(tx: Transaction, *, limit: int, before: int | None = None) -> list[Version]:
    """The newest first, those before `before`."""
    table = schema.versions
    found = sa.select(table).order_by(table.c.version.desc()).limit(min(limit, PAGE_ROWS_MAX))
    if before is not None:
        found = found.where(table.c.version < before)
    return [_version(row) for row in tx.execute(found)]


def version(tx: Transaction, number: int) -> Version | None:
    row = tx.execute(sa.select(schema.versions).where(schema.versions.c.version == number)).one_or_none()
    return None if row is None else _version(row)


def changes(tx: Transaction, number: int, *, limit: int, after: tuple[Kind, str] | None = None) -> list[Changed]:
    """What a version changed, by kind and id, those after `after`."""
    table = schema.log.c
    found = _log().where(table.version == number).order_by(table.kind, table.id).limit(min(limit, PAGE_ROWS_MAX))
    if after is not None:
        if not is_storable(after[1]):
            return []
        kind, entry_id = int(after[0]), after[1]
        found = found.where(sa.or_(table.kind > kind, sa.and_(table.kind == kind, table.id > entry_id)))
    return [_changed(row) for row in tx.execute(found)]


def all_changes(tx: Transaction, number: int) -> Iterator[Changed]:
    """All of what a version changed, as a stream."""
    table = schema.log.c
    for row in tx.stream(_log().where(table.version == number).order_by(table.kind, table.id)):
        yield _changed(row)


def of(tx: Transaction, kind: Kind, entry_id: str, *, limit: int, before: int | None = None) -> list[Step]:
    """The changes of one entry, the newest first, those before version `before`."""
    if not is_storable(entry_id):
        return []
    table = schema.log.c
    found = (
        sa.select(schema.versions, table.before, table.after)
        .join(schema.log, table.version == schema.versions.c.version)
        .where(table.kind == int(kind), table.id == entry_id)
        .order_by(table.version.desc())
        .limit(min(limit, PAGE_ROWS_MAX))
    )
    if before is not None:
        found = found.where(table.version < before)
    return [Step(_version(row), Changed(kind, entry_id, row.before, row.after)) for row in tx.execute(found)]


def entries_between(
    tx: Transaction, after: int, upto: int, limit_bytes: int | None = None, limit_changes: int | None = None
) -> Iterator[Entry] | TooLarge:
    """What brings someone at version `after` to `upto`: of each entry the last body alone, as a stream.

    TooLarge when it may be more than the limits; entries that changed often are counted each time for that.
    """
    table = schema.versions.c
    sizes = sa.select(sa.func.coalesce(sa.func.sum(table.changes), 0), sa.func.coalesce(sa.func.sum(table.bytes), 0))
    row = tx.execute(sizes.where(table.version > after, table.version <= upto)).one()
    count, size = int(row[0]), int(row[1])
    if (limit_bytes is not None and size > limit_bytes) or (limit_changes is not None and count > limit_changes):
        return TooLarge(count, size)
    return _entries_between(tx, after, upto)


def bodies_at(
    tx: Transaction, number: int, kinds: Iterable[Kind] | None = None, *, upto: int | None = None
) -> Iterator[Changed]:
    """Of whatever is not as it was at version `number`: its body then (`before`) and now, or at `upto` (`after`)."""
    table = schema.log.c
    by_entry = [table.kind, table.id]
    spans = sa.select(
        table.kind,
        table.id,
        table.before,
        # One sort of the log instead of a join with itself.
        sa.func.row_number().over(partition_by=by_entry, order_by=table.version).label("number"),
        sa.func.last_value(table.after)
        .over(partition_by=by_entry, order_by=table.version, rows=(None, None))
        .label("after"),
    ).where(table.version > number, table.version <= (tx.head.version if upto is None else upto))
    if kinds is not None:
        spans = spans.where(table.kind.in_([int(kind) for kind in kinds]))
    span = spans.subquery("span").c
    found = (
        sa.select(span.kind, span.id, span.before, span.after)
        .where(span.number == 1, span.before.is_distinct_from(span.after))
        .order_by(span.kind, span.id)
    )
    for row in tx.stream(found):
        yield _changed(row)


def _entries_between(tx: Transaction, after: int, upto: int) -> Iterator[Entry]:
    table, later = schema.log, schema.log.alias("later")
    overtaken = sa.exists().where(
        later.c.kind == table.c.kind,
        later.c.id == table.c.id,
        later.c.version > table.c.version,
        later.c.version <= upto,
    )
    found = (
        sa.select(table.c.kind, table.c.id, table.c.after)
        .where(table.c.version > after, table.c.version <= upto)
        .order_by(table.c.version, table.c.kind, table.c.id)
    )
    if upto - after > 1:
        found = found.where(sa.not_(overtaken))
    for row in tx.stream(found):
        yield Entry(Kind(row.kind), row.id, row.after)


def _log() -> sa.Select[Any]:
    table = schema.log.c
    return sa.select(table.kind, table.id, table.before, table.after)


def _changed(row: sa.Row[*tuple[Any, ...]]) -> Changed:
    return Changed(Kind(row.kind), row.id, row.before, row.after)


def _version(row: sa.Row[*tuple[Any, ...]]) -> Version:
    return Version(row.version, row.epoch, row.at, row.who, row.why, row.verb, row.changes, row.bytes)
