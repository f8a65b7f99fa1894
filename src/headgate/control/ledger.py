"""The log of changes, as publishing sees it: few questions, each one transaction."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.feed.entry import Entry, Position
from headgate.storage.sql import Database, TooLarge, entries, history, outbox
from headgate.storage.sql.publishing import newest_urgent

# A delta beyond either goes as a snapshot.
DELTA_BYTES_MAX = 4 * 1024 * 1024
DELTA_ENTRIES_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Piece:
    """What changed between two versions; `at_us` is when the last of it was committed."""

    entries: list[Entry]
    at_us: int


class Ledger:
    """Any method may raise StorageDown."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def head(self, after: int = 0) -> tuple[Position, int]:
        """Where the log ends, and the newest version after `after` that is urgent (0: none is)."""
        with self.database.read() as tx:
            return tx.head, newest_urgent(tx, after)

    def piece(self, after: int, upto: int) -> Piece | None:
        """None when it is more than a delta should hold."""
        with self.database.read() as tx:
            found = history.entries_between(tx, after, upto, DELTA_BYTES_MAX, DELTA_ENTRIES_MAX)
            if isinstance(found, TooLarge):
                return None
            taken = list(found)
            last = history.version(tx, upto)
        at_us = time.time_ns() // 1000 if last is None else round(last.at.timestamp() * 1_000_000)
        return Piece(taken, at_us)

    @contextlib.contextmanager
    def everything(self) -> Iterator[tuple[Position, Iterator[Entry]]]:
        """All entries as they are at one position."""
        with self.database.read() as tx:
            yield tx.head, entries.all(tx)

    def begin_epoch(self, seen: Position) -> Position | None:
        """If `seen`, which was published, is ahead of the log, the database has gone back in time. Then nodes hold
        versions this log will give out again for other changes: a new epoch tells them apart. None when it is not."""
        with self.database.write() as tx:
            if tx.head < seen:
                return tx.new_epoch(above=seen.epoch)
            # PostgreSQL itself may have said so already.
            return tx.head if tx.has_gone_back else None

    def note(self, region: str, position: Position, error: str | None) -> None:
        """How far a region has been told, for whoever asks any control plane."""
        with self.database.aside() as tx:
            outbox.published(tx, region, position, error=error)
