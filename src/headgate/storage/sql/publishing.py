"""What publishers and sweepers ask of the database, beyond what others do."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from headgate.storage.sql import schema
from headgate.storage.sql.transaction import Transaction


def newest_urgent(tx: Transaction, after: int) -> int:
    """The newest version after `after` that holds a block or a switch; 0 when there is none."""
    table = schema.outbox.c
    found = sa.select(sa.func.max(table.version)).where(table.version > after, table.urgent.is_(sa.true()))
    return int(tx.execute(found).scalar_one() or 0)


def ended_blocks(tx: Transaction, before: datetime, limit: int) -> list[str]:
    """Ids of blocks that ended before then, the oldest first."""
    table = schema.blocks.c
    found = sa.select(table.id).where(table.until.is_not(None), table.until < before).order_by(table.until)
    return list(tx.execute(found.limit(limit)).scalars())
