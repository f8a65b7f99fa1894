"""Very many entries as one change: staged beside the tables while everybody else goes on, then merged under THE lock.

    with bulk.staging(database) as staged:
        staged.put(entries)                      # as often as needed; outside the lock, in bounded memory
        with staged.write() as tx:               # THE lock
            counts = staged.plan(tx, prune)      # what it would change; staged.differences(tx) shows it
            counts = staged.merge(tx, who, why, verb)

All or nothing: the merge is one transaction, and what was staged is gone with the connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headgate.errors import ConfigError
from headgate.feed import Entry, Kind
from headgate.storage.sql import merging, schema
from headgate.storage.sql.columns import check_id, check_text, derived, facts
from headgate.storage.sql.database import Database
from headgate.storage.sql.driver import TimedConnection
from headgate.storage.sql.loading import load, portions
from headgate.storage.sql.moments import now
from headgate.storage.sql.rows import Stamp
from headgate.storage.sql.transaction import URGENT, Changed, Transaction, WriteTransaction, check_said

MERGE_TIMEOUT_S = 900.0
ENTRIES_A_PORTION = 5_000
# Statistics are made at once from here on; below it PostgreSQL's own upkeep is soon enough.
ANALYZE_FROM = 10_000
DUPLICATES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Counts:
    """What a bulk change does. `version` is None when it changes nothing, or has not been made."""

    version: int | None
    created: int
    replaced: int
    deleted: int
    unchanged: int

    @property
    def changed(self) -> int:
        return self.created + self.replaced + self.deleted


@contextmanager
def staging(database: Database) -> Iterator[Staging]:
    """Room for entries on a connection of its own."""
    with database.connect() as connection:
        timed = connection.connection.dbapi_connection
        usual_s = timed.limit_s if isinstance(timed, TimedConnection) else 0.0
        if isinstance(timed, TimedConnection):
            timed.limit_s = MERGE_TIMEOUT_S
        try:
            merging.make_tables(connection)
            staged = Staging(database, connection)
            yield staged
            staged.tidy_up()
        except BaseException:
            # Its temporary tables go with it.
            connection.invalidate()
            raise
        finally:
            if isinstance(timed, TimedConnection):
                timed.limit_s = usual_s


class Staging:
    def __init__(self, database: Database, connection: sa.Connection) -> None:
        self._database = database
        self._connection = connection
        self._is_indexed = False
        self._counts: Counts | None = None
        self._has_made: Counts | None = None

    def put(self, entries: Iterable[Entry]) -> int:
        """Entries with canonical bodies that have been validated. Gives how many.

        Raises ConfigError for what no database can hold. An entry may come once; `merge` says which came twice.
        """
        count = 0
        for portion in portions(entries, ENTRIES_A_PORTION):
            self._put(portion)
            count += len(portion)
        return count

    @contextmanager
    def write(self, *, timeout_s: float = MERGE_TIMEOUT_S) -> Iterator[WriteTransaction]:
        """`Database.write` where the staged entries can be seen."""
        self.settle()
        self._counts = None
        with self._database.write_on(self._connection, timeout_s=timeout_s) as tx:
            yield tx
        self._has_made = self._counts

    def tidy_up(self) -> None:
        """When all is over. The change is made: what cannot be done now (statistics come by themselves, temporary
        tables go with their connection) is no failure of it."""
        made, is_postgres = self._has_made, self._database.is_postgres
        try:
            if made is not None and made.version is not None and made.changed >= ANALYZE_FROM and is_postgres:
                self._connection.exec_driver_sql("ANALYZE rules, rule_facts, overrides, keys, log")
            merging.drop_tables(self._connection)
        except sa.exc.SQLAlchemyError:
            self._connection.invalidate()

    def plan(self, tx: WriteTransaction, prune: Iterable[Kind] = ()) -> Counts:
        """What merging would change. Entries of the kinds in `prune` that are not staged would be deleted."""
        self._counts = Counts(None, *merging.compare(tx, sorted(prune)))
        return self._counts

    def differences(self, tx: Transaction, limit: int | None = None) -> Iterator[Changed]:
        """What `plan` found, by kind and id, as a stream."""
        for row in tx.stream(merging.differences(limit)):
            yield Changed(Kind(row.kind), row.id, row.before, row.after)

    def merge(self, tx: WriteTransaction, who: str, why: str | None, verb: str, prune: Iterable[Kind] = ()) -> Counts:
        """One version of everything that differs; none if nothing does. After `plan`, exactly what that found."""
        counts = self._counts if self._counts is not None else self.plan(tx, prune)
        if not counts.changed:
            return counts
        check_said(who, why)
        stamp = Stamp(tx.head.version + 1, now(), who)
        kinds, size_bytes = merging.apply(tx, stamp)
        urgent = not URGENT.isdisjoint(kinds)
        tx.finish_version(who, why, verb, count=counts.changed, size_bytes=size_bytes, urgent=urgent, stamp_at=stamp.at)
        self._counts = Counts(stamp.version, counts.created, counts.replaced, counts.deleted, counts.unchanged)
        return self._counts

    def _put(self, portion: list[Entry]) -> None:
        by_kind: dict[Kind, list[tuple[Any, ...]]] = {}
        found: list[tuple[str, str, str]] = []
        for entry in portion:
            text = entry.body
            if text is None:
                raise ValueError(f"{entry.kind.word} {entry.id[:60]!r} is staged without a body")
            check_id(entry.kind, entry.id)
            check_text(text, f"{entry.kind.word} {entry.id[:60]!r}")
            body = json.loads(text)
            columns = derived(entry.kind, entry.id, body)
            by_kind.setdefault(entry.kind, []).append((entry.id, text, *columns.values()))
            if entry.kind is Kind.RULE:
                found.extend((fact, value, entry.id) for fact, value in facts(body))
        with self._together():
            for kind, rows in by_kind.items():
                columns_of = ("id", "body", *schema.DERIVED[kind])
                load(self._connection, merging.STAGED[kind], columns_of, rows)
            load(self._connection, merging.STAGED_FACTS, ("fact", "value", "rule"), found)
        self._is_indexed = False

    @contextmanager
    def _together(self) -> Iterator[None]:
        """One transaction for a portion: it touches temporary tables alone, so it locks nobody out."""
        self._connection.exec_driver_sql("BEGIN")
        yield
        self._connection.commit()

    def settle(self) -> None:
        """Everything is staged. `write` does this too, but whoever takes other locks before that one does it first."""
        if self._is_indexed:
            return
        for kind in Kind:
            twice = merging.duplicates(self._connection, kind, DUPLICATES_SHOWN)
            if twice:
                raise ConfigError(f"given more than once: {', '.join(f'{kind.word} {name!r}' for name in twice)}")
        merging.index(self._connection)
        self._is_indexed = True
