"""A limiter made of a dict, with the methods of the real one that a feed needs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from headgate.errors import FeedError
from headgate.feed.codec import decode_delta, read_snapshot, snapshot_position
from headgate.feed.entry import START, Entry, Kind, Position


@dataclass(frozen=True)
class ToyApplied:
    epoch: int
    version: int
    entries: int
    refused: list[tuple[str, str, str]] = field(default_factory=list)
    is_full: bool = False


class ToyLimiter:
    def __init__(self) -> None:
        self.bodies: dict[tuple[Kind, str], str] = {}
        self.position = START
        self.used_keys: list[str] = []
        self.statuses: list[tuple[int, str, str | None]] = []
        self.seen: list[Position] = []
        self._lock = threading.Lock()

    def apply_delta(self, raw: bytes, key: bytes) -> ToyApplied:
        delta = decode_delta(key, raw)
        with self._lock:
            if delta.to <= self.position:
                return ToyApplied(self.position.epoch, self.position.version, 0)
            if delta.to.epoch != self.position.epoch or delta.since > self.position:
                raise FeedError("gap", f"{delta.since} does not go on from {self.position}")
            return self._put(delta.to, list(delta.entries))

    def apply_snapshot(self, path: str, key: bytes) -> ToyApplied:
        with open(path, "rb") as file:
            position = snapshot_position(file.read(64))
            file.seek(0)
            entries = list(read_snapshot(file, key))
        with self._lock:
            self.bodies = {}
            return self._put(position, entries)

    def _put(self, position: Position, entries: list[Entry]) -> ToyApplied:
        refused = []
        for entry in entries:
            if entry.body is None:
                self.bodies.pop((entry.kind, entry.id), None)
            elif "refuse me" in entry.body:
                refused.append((entry.kind.word, entry.id, "it asks for it"))
            else:
                self.bodies[entry.kind, entry.id] = entry.body
        self.position = position
        self.seen.append(position)
        return ToyApplied(position.epoch, position.version, len(entries), refused)

    def feed_position(self) -> tuple[int, int]:
        return self.position.epoch, self.position.version

    def take_used_keys(self, limit: int) -> list[str]:
        given, self.used_keys = self.used_keys[:limit], self.used_keys[limit:]
        return given

    def set_feed_status(self, *, contact_us: int, source: str, error: str | None) -> None:
        self.statuses.append((contact_us, source, error))

    def rule_count(self) -> int:
        return sum(kind is Kind.RULE for kind, _ in self.bodies)

    def store_status(self) -> str:
        return '{"shards": [{"name": "s1", "breaker": "closed", "connected": true, "calls": 7}]}'
