"""The whole configuration as one file: what there is, its history, keys and tokens (as hashes); nothing of the traffic.

The file is gzip; inside, JSON lines. The first says what it is, the last what all the others hash to:

    {"headgate_backup": 1, "headgate": "0.6.0", "at": "…Z", "position": "EPOCH.VERSION", "counts": {"rules": 12, …}}
    ["rules", {"id": "login", "body": "{…}", "version": 3, …}]
    …
    {"end": 12, "sha256": "…"}
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from headgate._core import __version__
from headgate.control.errors import BackupError
from headgate.control.moments import now_utc, read_time, written
from headgate.feed import Position
from headgate.storage.sql import Database, Transaction, dump

FORMAT = 1
# A row of the log holds a body twice, before and after; more than this is not one of ours.
LINE_BYTES_MAX = 16 * 1024 * 1024
READ_TIMEOUT_S = 900.0
_CHUNK_BYTES = 256 * 1024
_LEVEL = 6
_GZIP = 31


class Readable(Protocol):
    """All that is asked of a file: it need not go back."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Header:
    """What a backup says of itself."""

    headgate: str
    at: str
    position: Position
    counts: dict[str, int]


def backup(database: Database, file: BinaryIO) -> Header:
    """Writes one state of the database, as it reads it, while everybody else goes on."""
    with database.read(timeout_s=READ_TIMEOUT_S) as tx:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        hashed = hashlib.sha256()
        header = Header(
            __version__, written(now_utc()), tx.head, {table: dump.count(tx, table) for table in dump.TABLES}
        )
        for line in _lines(tx, header):
            hashed.update(line)
            file.write(packer.compress(line))
        end = {"end": sum(header.counts.values()), "sha256": hashed.hexdigest()}
        file.write(packer.compress(_line(end)) + packer.flush())
    return header


def _lines(tx: Transaction, header: Header) -> Iterator[bytes]:
    said = {"headgate": header.headgate, "at": header.at, "position": str(header.position), "counts": header.counts}
    yield _line({"headgate_backup": FORMAT} | said)
    for table in dump.TABLES:
        for row in dump.read(tx, table):
            yield _line([table, row])


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


class BackupReader:
    """Reads a file once, from its beginning, in bounded memory. What `rows` gave is known to be whole only when it ends
    without a BackupError: whoever uses rows before must be able to take it back."""

    def __init__(self, file: Readable) -> None:
        self._lines = _unpacked_lines(file)
        self._hashed = hashlib.sha256()
        first = next(self._lines, None)
        if first is None:
            raise BackupError("this is no backup: it is empty")
        self._hashed.update(first)
        self.header = _header(first)

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(table, row), in the order of `dump.TABLES`."""
        counts = dict.fromkeys(dump.TABLES, 0)
        for line in self._lines:
            value = _value(line)
            if isinstance(value, dict):
                self._check_end(value, counts)
                return
            self._hashed.update(line)
            table, row = _row(value)
            counts[table] += 1
            yield table, row
        raise BackupError("the backup is cut short: its last line is missing; nothing was changed")

    def _check_end(self, end: dict[str, Any], counts: dict[str, int]) -> None:
        if next(self._lines, None) is not None:
            raise BackupError("the backup goes on after its end; nothing was changed")
        if end.get("sha256") != self._hashed.hexdigest() or counts != self.header.counts:
            raise BackupError(
                "the backup was altered or damaged: it does not hash to what it says; nothing was changed"
            )


def _unpacked_lines(file: Readable) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(_GZIP)
    rest = b""
    try:
        while raw := file.read(_CHUNK_BYTES):
            while raw and not unpacker.eof:
                rest += unpacker.decompress(raw, _CHUNK_BYTES)
                raw = unpacker.unconsumed_tail
                *lines, rest = rest.split(b"\n")
                yield from (line + b"\n" for line in lines)
                if len(rest) > LINE_BYTES_MAX:
                    raise BackupError("the backup has a line that is too long to be one of ours; nothing was changed")
            if unpacker.eof and (unpacker.unused_data or raw):
                raise BackupError("the backup goes on after its end; nothing was changed")
    except zlib.error:
        raise BackupError("this is no backup, or it is damaged: it cannot be unpacked; nothing was changed") from None
    if rest or not unpacker.eof:
        raise BackupError("the backup is cut short; nothing was changed")


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise BackupError("the backup is damaged: a line of it is not JSON; nothing was changed") from None


def _header(line: bytes) -> Header:
    value = _value(line)
    if not isinstance(value, dict) or "headgate_backup" not in value:
        raise BackupError("this is no backup of Headgate's: its first line does not say so")
    if value["headgate_backup"] != FORMAT:
        raise BackupError(f"the backup is of format {value['headgate_backup']!r}; this Headgate reads {FORMAT}")
    try:
        counts = {str(table): int(count) for table, count in value["counts"].items()}
        made = Header(str(value["headgate"]), read_time(value["at"]), Position.parse(value["position"]), counts)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BackupError("the backup is damaged: its first line is not whole") from None
    if set(made.counts) != set(dump.TABLES):
        raise BackupError(
            f"the backup is of Headgate {made.headgate}, with other tables; use that version to restore it"
        )
    return made


def _row(value: Any) -> tuple[str, dict[str, Any]]:
    match value:
        case [str(table), dict(row)] if table in dump.TABLES:
            return table, row
    raise BackupError("the backup is damaged: a line of it is no row; nothing was changed")
