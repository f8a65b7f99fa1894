"""Records and logs as Python values. `lua/record.lua` and `lua/hits.lua` name the layouts."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

BUCKET, WINDOW, PAIR, GROUPS, WIDE_GROUPS, HITS = 1, 2, 3, 4, 5, 6
KINDS = {
    "gcra": BUCKET,
    "fixed_window": WINDOW,
    "sliding_window_counter": PAIR,
    "sliding_window": GROUPS,
    "sliding_log": HITS,
}
COUNT_MAX = 2**40 - 1
NARROW_COUNT_MAX = 65_535
TIME_MODULUS = 2**48


def whole(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


@dataclass(frozen=True)
class Entry:
    """One limit's usage. Which fields mean anything depends on the kind; `groups` are (time, count), oldest first."""

    id: int
    kind: int
    life: int
    at_us: int
    refunds: int = 0
    level: float = 0.0
    used: int = 0
    current: int = 0
    previous: int = 0
    groups: tuple[tuple[int, int], ...] = ()
    head: int = 0
    hits: int = 0


@dataclass(frozen=True)
class Record:
    expires_ms: int
    entries: tuple[Entry, ...] = field(default=())

    def entry(self, limit_id: int) -> Entry | None:
        return next((entry for entry in self.entries if entry.id == limit_id), None)


class _Reader:
    def __init__(self, value: bytes) -> None:
        self.value, self.at = value, 0

    def take(self, size: int) -> bytes:
        assert self.at + size <= len(self.value), "a record ends early"
        self.at += size
        return self.value[self.at - size : self.at]

    def whole(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def double(self) -> float:
        number: float = struct.unpack("<d", self.take(8))[0]
        return number

    def entry(self) -> Entry:
        limit_id, tag, life, at_us = self.whole(5), self.whole(2), self.whole(1), self.whole(7)
        kind, refunds = tag % 16, tag // 16
        entry = Entry(limit_id, kind, life, at_us)
        match kind:
            case 1:
                return replace(entry, refunds=refunds, level=self.double())
            case 2:
                return replace(entry, used=int(self.double()))
            case 3:
                return replace(entry, current=self.whole(4), previous=self.whole(4))
            case 4 | 5:
                newest, used, older = self.whole(5), self.whole(5), self.whole(1)
                count_size = 2 if kind == GROUPS else 5
                groups = []
                for _ in range(older):
                    time_us, count = self.whole(6), self.whole(count_size)
                    groups.append((at_us - (at_us - time_us) % TIME_MODULUS, count))
                return replace(entry, used=used, groups=(*groups, (at_us, newest)))
            case 6:
                return replace(entry, used=self.whole(5), head=self.whole(4), hits=self.whole(4))
        raise AssertionError(f"an entry of kind {kind}")


def decode(value: bytes) -> Record:
    reader = _Reader(value)
    expires_ms, entries = reader.whole(6), []
    while reader.at < len(value):
        entries.append(reader.entry())
    return Record(expires_ms, tuple(entries))


def encode(record: Record) -> bytes:
    return whole(record.expires_ms, 6) + b"".join(_encode_entry(entry) for entry in record.entries)


def _encode_entry(entry: Entry) -> bytes:
    start = whole(entry.id, 5) + whole(entry.kind + 16 * entry.refunds, 2) + whole(entry.life, 1)
    return start + whole(entry.at_us, 7) + _payload(entry)


def _payload(entry: Entry) -> bytes:
    match entry.kind:
        case 1:
            return struct.pack("<d", entry.level)
        case 2:
            return struct.pack("<d", float(entry.used))
        case 3:
            return whole(entry.current, 4) + whole(entry.previous, 4)
        case 6:
            return whole(entry.used, 5) + whole(entry.head, 4) + whole(entry.hits, 4)
    *older, (_, newest) = entry.groups
    size = 2 if entry.kind == GROUPS else 5
    groups = b"".join(whole(at_us % TIME_MODULUS, 6) + whole(count, size) for at_us, count in older)
    return whole(newest, 5) + whole(entry.used, 5) + whole(len(older), 1) + groups


def decode_log(value: bytes) -> list[tuple[int, int]]:
    """Hits as (time, cost), dead ones included."""
    reader = _Reader(value)
    return [(reader.whole(7), reader.whole(5)) for _ in range(len(value) // 12)]
