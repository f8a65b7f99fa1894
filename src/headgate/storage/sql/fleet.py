"""The last heartbeat of each node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from headgate.feed import Position
from headgate.storage.sql import schema
from headgate.storage.sql.columns import check_text
from headgate.storage.sql.transaction import Transaction

NODES_MAX = 10_000
NODE_BYTES_MAX = 256
BODY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Beat:
    """`body` is the heartbeat's JSON text; `seen` is when it came, by the clock of who took it."""

    node: str
    region: str | None
    position: Position
    seen: datetime
    body: str


def put(tx: Transaction, beats: Iterable[Beat]) -> None:
    """The newest of each node stays, whoever writes it when. Raises ConfigError for what no database can hold."""
    newest: dict[str, Beat] = {}
    for beat in beats:
        if beat.node not in newest or newest[beat.node].seen <= beat.seen:
            newest[beat.node] = beat
    # In one order for everyone: two control planes that write the same nodes must not wait for each other.
    rows = [_row(newest[node]) for node in sorted(newest)]
    if not rows:
        return
    insert: Any = (postgresql.insert if tx.is_postgres else sqlite.insert)(schema.fleet)
    renewed = {name: insert.excluded[name] for name in ("region", "epoch", "version", "seen", "body")}
    newer = schema.fleet.c.seen <= insert.excluded.seen
    tx.execute(insert.on_conflict_do_update(index_elements=["node"], set_=renewed, where=newer), rows)


def all(tx: Transaction) -> list[Beat]:
    """By node."""
    found = sa.select(schema.fleet).order_by(schema.fleet.c.node).limit(NODES_MAX)
    return [
        Beat(row.node, row.region, Position(row.epoch, row.version), row.seen, row.body) for row in tx.execute(found)
    ]


def prune(tx: Transaction, before: datetime) -> int:
    """Forgets the nodes last seen before that; gives how many."""
    return tx.execute(sa.delete(schema.fleet).where(schema.fleet.c.seen < before)).rowcount


def _row(beat: Beat) -> dict[str, Any]:
    check_text(beat.node, "the id of a node", NODE_BYTES_MAX)
    check_text(beat.region or "", "the region of a node", NODE_BYTES_MAX)
    return {
        "node": beat.node,
        "region": beat.region,
        "epoch": beat.position.epoch,
        "version": beat.position.version,
        "seen": beat.seen,
        "body": check_text(beat.body, "a heartbeat", BODY_BYTES_MAX),
    }
