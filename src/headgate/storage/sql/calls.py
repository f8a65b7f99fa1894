"""The record of calls of the admin API: who changed something, and who was not allowed to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from headgate.storage.sql import schema
from headgate.storage.sql.columns import is_storable
from headgate.storage.sql.transaction import Transaction

# One more than a page holds: whether it comes says whether there is another page.
PAGE_ROWS_MAX = 1_001
TEXT_CHARS_MAX = 2_048
PRUNED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class CallRow:
    """`id` is given by the database."""

    at: datetime
    who: str | None
    method: str
    path: str
    status: int
    address: str | None = None
    why: str | None = None
    id: int | None = None


def add_many(tx: Transaction, calls: Sequence[CallRow]) -> None:
    """What clients sent is cut short and made printable: a record is kept of every call, however strange."""
    rows = [
        {
            "at": call.at,
            "who": _kept(call.who),
            "method": _kept(call.method),
            "path": _kept(call.path),
            "status": call.status,
            "address": _kept(call.address),
            "why": _kept(call.why),
        }
        for call in calls
    ]
    if rows:
        tx.execute(schema.calls.insert(), rows)


def page(
    tx: Transaction, *, limit: int, before: int | None = None, who: str | None = None, status: int | None = None
) -> list[CallRow]:
    """The newest first, those before the id `before`."""
    table = schema.calls.c
    found = sa.select(schema.calls).order_by(table.id.desc()).limit(min(limit, PAGE_ROWS_MAX))
    if before is not None:
        found = found.where(table.id < before)
    if who is not None:
        if not is_storable(who):
            return []
        found = found.where(table.who == who)
    if status is not None:
        found = found.where(table.status == status)
    return [CallRow(**row._mapping) for row in tx.execute(found)]


def prune(tx: Transaction, before: datetime) -> int:
    """Deletes the oldest, a portion at a time; gives how many. Fewer than PRUNED_AT_ONCE: there are no more."""
    table = schema.calls.c
    oldest = sa.select(table.id).where(table.at < before).order_by(table.at).limit(PRUNED_AT_ONCE)
    return tx.execute(sa.delete(schema.calls).where(table.id.in_(oldest.scalar_subquery()))).rowcount


def _kept(text: Any) -> Any:
    if text is None:
        return None
    short = text[:TEXT_CHARS_MAX]
    return short if short.isprintable() else short.encode("unicode_escape").decode()[:TEXT_CHARS_MAX]
