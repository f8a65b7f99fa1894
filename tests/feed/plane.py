"""A control plane reduced to its publishing half, over a real database and real brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from headgate.control.cuts import Cuts
from headgate.control.epochs import Epochs
from headgate.control.head import Head
from headgate.control.ledger import Ledger
from headgate.control.local_feed import LocalFeed
from headgate.control.publisher import Publisher
from headgate.control.region import Shared
from headgate.control.snapshots import Snapshots
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.sql import Changed, Database, entries
from headgate.storage.streams import Broker

KEY = b"k" * 32


class Plane:
    def __init__(self, database: Database, folder: Path, regions: Mapping[str, str], **options: Any) -> None:
        self.database = database
        log = structlog.get_logger("test")
        self.ledger = Ledger(database)
        self.head = Head(self.ledger, log=log)
        self.cuts = Cuts(self.ledger, KEY)
        self.snapshots = Snapshots(self.ledger, KEY, folder=str(folder), log=log)
        self.epochs = Epochs(self.ledger, self.head, log=log)
        self.shared = Shared(self.ledger, self.head, self.cuts, self.snapshots, self.epochs, log)
        self.publisher = Publisher(regions, self.shared, key=KEY, **options)
        self.feed = LocalFeed(self.head, self.cuts, self.snapshots, self.epochs)

    def start(self) -> None:
        self.head.start()
        self.publisher.start()

    def stop(self) -> None:
        self.publisher.stop()
        self.head.stop()
        self.snapshots.close()

    def put(self, *bodies: tuple[Kind, str, str | None]) -> Position:
        """Commits one change and tells the head, as a change through the API does."""
        position = put(self.database, *bodies)
        self.head.committed(position)
        return position


@contextmanager
def running(database: Database, folder: Path, regions: Mapping[str, str], **options: Any) -> Iterator[Plane]:
    plane = Plane(database, folder, regions, **options)
    plane.start()
    try:
        yield plane
    finally:
        plane.stop()


def rule(name: str, limit: str = "5/minute") -> tuple[Kind, str, str]:
    return Kind.RULE, name, json.dumps({"by": "user", "limit": limit, "name": name}, separators=(",", ":"))


def gone(name: str) -> tuple[Kind, str, None]:
    return Kind.RULE, name, None


def put(database: Database, *bodies: tuple[Kind, str, str | None]) -> Position:
    with database.write() as tx:
        changed = []
        for kind, entry_id, body in bodies:
            before = entries.get(tx, kind, entry_id)
            changed.append(Changed(kind, entry_id, before.text if before else None, body))
        tx.commit_version("tester", None, "test", changed)
        return tx.head


def truth(database: Database) -> tuple[Position, dict[tuple[Kind, str], str | None]]:
    with database.read() as tx:
        return tx.head, {(entry.kind, entry.id): entry.body for entry in entries.all(tx)}


def snapshot_of(broker: Broker) -> Position | None:
    pointer = broker.state().pointer
    return None if pointer is None else pointer.position


def as_entry(kind: Kind, entry_id: str, body: str | None) -> Entry:
    return Entry(kind, entry_id, body)
