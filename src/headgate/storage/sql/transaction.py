"""What happens between BEGIN and COMMIT: reading, and making the next version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headgate.feed import Kind, Position
from headgate.storage.sql import rows, schema
from headgate.storage.sql.columns import check_id, check_text
from headgate.storage.sql.moments import Moment, microseconds, now

CHANNEL = "headgate"
STREAM_ROWS = 1_000
TEXT_BYTES_MAX = 4_096
URGENT = frozenset({Kind.BLOCK, Kind.SWITCH})

_VERSION = schema.versions.insert()
_OWED = schema.outbox.insert()
# The same and what `_move` does, in one round trip instead of four.
_FINISH = sa.text(
    """
    WITH made AS (
        INSERT INTO versions (version, epoch, at, who, why, verb, changes, bytes)
        VALUES (:version, :epoch, :at, :who, :why, :verb, :changes, :bytes)
    ), owed AS (
        INSERT INTO outbox (version, epoch, at, changes, bytes, urgent)
        VALUES (:version, :epoch, :at, :changes, :bytes, :urgent)
    ), moved AS (
        UPDATE ledger SET version = :version
    )
    SELECT pg_notify(:channel, :position)
    """
).bindparams(
    sa.bindparam("at", type_=Moment),
    *(sa.bindparam(name, type_=sa.BigInteger) for name in ("version", "epoch", "changes", "bytes")),
    *(sa.bindparam(name, type_=sa.Text) for name in ("who", "why", "verb", "channel", "position")),
    sa.bindparam("urgent", type_=sa.Boolean),
)


@dataclass(frozen=True, slots=True)
class Changed:
    """One entry of a change: canonical JSON texts; None is absent, before or after."""

    kind: Kind
    id: str
    before: str | None
    after: str | None


class Transaction:
    """Sees one state of the database from its first statement on. `head` is that state's position."""

    def __init__(self, connection: sa.Connection, head: Position) -> None:
        self.connection = connection
        self.head = head

    @property
    def is_postgres(self) -> bool:
        return self.connection.dialect.name == "postgresql"

    def execute(self, statement: sa.Executable, values: Any = None) -> sa.CursorResult[*tuple[Any, ...]]:
        return self.connection.execute(statement, values)

    def stream(self, statement: sa.Executable) -> Iterator[sa.Row[*tuple[Any, ...]]]:
        """Rows as they come, however many there are."""
        options = {"stream_results": True, "yield_per": STREAM_ROWS}
        with self.connection.execute(statement, execution_options=options) as result:
            yield from result


class WriteTransaction(Transaction):
    """Holds THE lock: nobody else can take a version before this one is over. `has_gone_back` when a new epoch began
    with it, since the database's own history is another one than before."""

    has_gone_back = False

    def commit_version(self, who: str, why: str | None, verb: str, changes: Sequence[Changed]) -> int:
        """Writes rows, log, version and outbox; they become true together when the block is left. Gives the version.

        A change holds each entry once. One that changes nothing is a mistake of the caller's.
        """
        if not changes:
            raise ValueError("a change that changes nothing takes no version")
        check_said(who, why)
        _check(changes)
        version, at = self.head.version + 1, now()
        by_kind: dict[Kind, list[Changed]] = {}
        for change in changes:
            by_kind.setdefault(change.kind, []).append(change)
        for kind, mine in by_kind.items():
            there = [
                rows.Put(one.id, one.after, json.loads(one.after), is_new=one.before is None)
                for one in mine
                if one.after is not None
            ]
            gone = [one.id for one in mine if one.after is None]
            if gone:
                rows.delete(self.connection, kind, gone)
            if there:
                rows.put(self.connection, kind, there, rows.Stamp(version, at, who))
        logged = [(version, int(one.kind), one.id, one.before, one.after) for one in changes]
        rows.put_many(self.connection, schema.log, ("version", "kind", "id", "before", "after"), logged)
        size = sum(len(one.id) + len(one.after or "") for one in changes)
        self.finish_version(
            who, why, verb, count=len(changes), size_bytes=size, urgent=not URGENT.isdisjoint(by_kind), stamp_at=at
        )
        return version

    def finish_version(
        self, who: str, why: str | None, verb: str, *, count: int, size_bytes: int, urgent: bool, stamp_at: Any
    ) -> None:
        """The part of a change that is the same however its entries were written."""
        to = Position(self.head.epoch, self.head.version + 1)
        shared = {"version": to.version, "epoch": to.epoch, "at": stamp_at, "changes": count, "bytes": size_bytes}
        said = {"who": who, "why": why, "verb": verb}
        if self.is_postgres:
            self.execute(_FINISH, {**shared, **said, "urgent": urgent, "channel": CHANNEL, "position": str(to)})
            self.head = to
            return
        self.execute(_VERSION, {**shared, **said})
        self.execute(_OWED, {**shared, "urgent": urgent})
        self._move(to)

    def new_epoch(self, above: int = 0) -> Position:
        """For a ledger that was restored, or has gone back in time: whatever nodes have, this is newer; also than the
        epoch `above`, which was seen somewhere."""
        to = Position(max(microseconds(now()), self.head.epoch + 1, above + 1), self.head.version)
        self._move(to)
        return to

    def follow_timeline(self, before: str | None, now: str) -> None:
        """Versions that nodes hold may be lost here, and would be given out again for other changes: before the first
        of them is, a new epoch begins."""
        self.execute(sa.update(schema.ledger).values(timeline=now))
        if before is not None:
            self.new_epoch()
            self.has_gone_back = True

    def _move(self, to: Position) -> None:
        self.execute(sa.update(schema.ledger).values(epoch=to.epoch, version=to.version))
        if self.is_postgres:
            self.execute(sa.select(sa.func.pg_notify(CHANNEL, str(to))))
        self.head = to


def check_said(who: str, why: str | None) -> None:
    """Raises ConfigError for what cannot be kept in the history."""
    check_text(who, "who makes the change", TEXT_BYTES_MAX)
    check_text(why or "", "the reason of the change", TEXT_BYTES_MAX)


def _check(changes: Sequence[Changed]) -> None:
    seen = set()
    for change in changes:
        check_id(change.kind, change.id)
        if change.after is not None:
            check_text(change.after, f"{change.kind.word} {change.id[:60]!r}")
        if (change.kind, change.id) in seen:
            raise ValueError(f"{change.kind.word} {change.id[:60]!r} is in one change twice")
        seen.add((change.kind, change.id))
