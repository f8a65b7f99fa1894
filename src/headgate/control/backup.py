"""Backups: made (`backup_file`), and put back into a database, all of it or nothing; a new epoch makes nodes follow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from headgate.control.backup_file import BackupReader, Header, Readable, backup
from headgate.control.errors import BackupError
from headgate.errors import ConfigError, HeadgateError
from headgate.feed import Entry, Kind, Position
from headgate.storage.sql import (
    Database,
    Transaction,
    WriteTransaction,
    bulk,
    canonical,
    dump,
    entries,
    history,
    tokens,
)
from headgate.storage.sql.schema import TABLES

__all__ = ["Restored", "backup", "restore"]

WHO = "restore"
WRITE_TIMEOUT_S = 900.0
# Tokens are kept in memory until the file has proved to be whole.
TOKENS_MAX = 100_000
_KINDS = {table.name: kind for kind, table in TABLES.items()}
_TOKENS = "tokens"
_REVOKED = ("revoked", "revoked_by")

Row = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Restored:
    """`position` is where the database stands now; `changed` is false where it held the same already."""

    header: Header
    position: Position
    changed: bool


def restore(file: Readable, database: Database, *, replace: bool = False) -> Restored:
    """Into an empty database, history and all; or, with `replace`, into one that is not: its state becomes that of the
    backup, as one more version of its own history. Tables of an older Headgate are brought up to date first.

    Raises BackupError, and changes nothing, for a file that is not whole or a database that is not empty. Tokens that
    there are stay, and keys that have ended since stay ended."""
    reader = BackupReader(file)
    database.migrate()
    with database.read() as tx:
        is_empty = dump.is_empty(tx)
    if is_empty:
        return _into_empty(reader, database)
    if not replace:
        raise BackupError(
            f"{database.place} is not empty: restore into an empty database, or say that its state shall be replaced "
            "(--replace; its history is kept)"
        )
    return _in_place(reader, database)


def _into_empty(reader: BackupReader, database: Database) -> Restored:
    with database.write(timeout_s=WRITE_TIMEOUT_S) as tx:
        if not dump.is_empty(tx):
            raise BackupError(f"{database.place} was written to by someone else; nothing was restored")
        try:
            for table, rows in groupby(reader.rows(), key=lambda row: row[0]):
                dump.write(tx, table, _new_rows(tx, rows))
        except HeadgateError as error:
            raise _as_backup_error(error) from None
        except Exception as error:
            # Rows that no database takes together, such as one twice: the file is not as it was written.
            raise BackupError(
                f"the backup was altered or damaged ({type(error).__name__}); nothing was changed"
            ) from None
        return Restored(reader.header, _begin_epoch(tx, reader.header), True)


def _in_place(reader: BackupReader, database: Database) -> Restored:
    given: list[dict[str, Any]] = []
    with bulk.staging(database) as staging:
        try:
            with database.read(timeout_s=WRITE_TIMEOUT_S) as tx:
                staging.put(_entries(tx, reader.rows(), given))
            with staging.write() as tx:
                planned = staging.plan(tx, Kind)
                why = f"the backup of {reader.header.at}, at {reader.header.position}"
                staging.merge(tx, WHO, why, "restore")
                dump.write(tx, _TOKENS, _new_rows(tx, ((_TOKENS, row) for row in given)))
                if not planned.changed:
                    return Restored(reader.header, tx.head, False)
                return Restored(reader.header, tx.new_epoch(above=reader.header.position.epoch), True)
        except HeadgateError as error:
            raise _as_backup_error(error) from None


def _entries(tx: Transaction, rows: Iterator[Row], given: list[dict[str, Any]]) -> Iterator[Entry]:
    """The state alone; history is the database's own. Tokens are put aside."""
    for table, row in rows:
        if table == _TOKENS:
            if len(given) >= TOKENS_MAX:
                raise BackupError(f"the backup has more than {TOKENS_MAX:,} tokens; nothing was changed")
            given.append(row)
        elif table in _KINDS:
            kind, id, body = _KINDS[table], row.get("id"), row.get("body")
            if not isinstance(id, str) or not isinstance(body, str):
                raise BackupError(f"the backup is damaged: a row of {table} is not whole; nothing was changed")
            yield Entry(kind, id, _still_ended(tx, id, body) if kind is Kind.KEY else body)


def _still_ended(tx: Transaction, id: str, body: str) -> str:
    """A key that was revoked since the backup does not come back to life, be it that it was deleted afterwards; nor
    does one last longer again that another was made in place of."""
    known, given = _last_known(tx, id), json.loads(body)
    if not known or not isinstance(given, dict):
        return body
    if known.get("revoked") and not given.get("revoked"):
        given |= {name: known[name] for name in _REVOKED if name in known}
    if known.get("expires"):
        given["expires"] = min(known["expires"], given.get("expires") or known["expires"])
    return canonical(given)


def _last_known(tx: Transaction, id: str) -> dict[str, Any]:
    stored = entries.get(tx, Kind.KEY, id)
    if stored is not None:
        return stored.body
    last = history.of(tx, Kind.KEY, id, limit=1)
    return json.loads(last[0].change.before or "{}") if last else {}


def _new_rows(tx: Transaction, rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Tokens that there are stay as they are; of the rest there is nothing yet."""
    return (row for table, row in rows if table != _TOKENS or tokens.get(tx, str(row.get("id"))) is None)


def _begin_epoch(tx: WriteTransaction, header: Header) -> Position:
    position = dump.take_position(tx, header.position.version)
    # The clock of this machine may be behind that of the one the backup was made on.
    return position if position.epoch > header.position.epoch else tx.new_epoch(above=header.position.epoch)


def _as_backup_error(error: HeadgateError) -> HeadgateError:
    """What a row may not hold is the file's fault; a database that is away is not."""
    return BackupError(f"the backup was altered or damaged: {error}") if isinstance(error, ConfigError) else error
