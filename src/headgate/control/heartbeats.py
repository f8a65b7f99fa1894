"""What was heard of nodes, in memory. Pure but for a lock: times are arguments.

A heartbeat carries its node's clock, which orders the heartbeats of that node and nothing else. When a node was last
heard of is told by our clock: whenever a heartbeat is another than the last.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.feed.entry import Position
from headgate.storage.sql.fleet import Beat

ALIVE = timedelta(seconds=10)
FORGOTTEN = timedelta(days=1)
# A node that is heard of for the first time by an old heartbeat is dead, or its clock is wrong: the next one will tell.
_DOUBT = timedelta(seconds=60)
# How old what other control planes know of a node may get.
_WRITE_AGAIN = timedelta(seconds=4)
NODES_MAX = 10_000
USED_KEYS_MAX = 100_000
BODY_BYTES_MAX = 60_000
_ID_CHARS_MAX = 128
# What the database takes.
_ID_BYTES_MAX = 256
_NUMBER_MAX = 2**63 - 1
_LATE_US = 10 * 1_000_000
_UNTOLD = frozenset({"id", "region", "position", "at_us", "used_keys"})


@dataclass(frozen=True, slots=True)
class Known:
    """One node. `body` is what else it said."""

    id: str
    region: str | None
    position: Position
    at_us: int
    seen: datetime
    body: Mapping[str, Any]

    def is_alive(self, now: datetime) -> bool:
        return now - self.seen <= ALIVE

    def as_beat(self) -> Beat:
        text = json.dumps({**self.body, "at_us": self.at_us}, separators=(",", ":"))
        if len(text) > BODY_BYTES_MAX:
            text = json.dumps({"at_us": self.at_us})
        return Beat(self.id, self.region, self.position, self.seen, text)


class Heartbeats:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}
        self._first: dict[str, datetime] = {}
        self._written: dict[str, Known] = {}
        self._used: set[str] = set()
        # Of those that lie somewhere, when the last one was made: whether there is another.
        self._lying: dict[tuple[str, str], int] = {}

    def take(self, note: Mapping[str, Any], now: datetime, *, is_fresh: bool, place: str = "") -> bool:
        """Whether it told anything new. One that is not fresh may have lain somewhere (`place`) for long. What is no
        heartbeat is passed over."""
        heard = _read(note, now if is_fresh else _earlier(now, note.get("at_us")))
        if heard is None:
            return False
        with self._lock:
            before = self._known.get(heard.id)
            if before is None and len(self._known) >= NODES_MAX:
                return False
            lay_us = self._lying.get((place, heard.id), heard.at_us)
            if not is_fresh:
                self._lying[place, heard.id] = heard.at_us
            if before is not None:
                # One that comes late is a little older than the last. One much older, from a node that does speak, says
                # that its clock was set back.
                speaks = is_fresh or lay_us != heard.at_us
                set_back = speaks and before.at_us - heard.at_us > _LATE_US
                if heard.at_us <= before.at_us and heard.position == before.position and not set_back:
                    return False
                if heard.at_us < before.at_us and not set_back:
                    return False
                heard = replace(heard, seen=now)
            self._known[heard.id] = heard
            self._first.setdefault(heard.id, now)
            used = note.get("used_keys")
            if isinstance(used, list) and len(self._used) < USED_KEYS_MAX:
                self._used.update(key for key in used[:1000] if isinstance(key, str))
            return True

    def all(self) -> list[Known]:
        with self._lock:
            return list(self._known.values())

    def forget(self, now: datetime) -> list[str]:
        """Those not heard of for a day."""
        with self._lock:
            gone = [
                node.id
                for node in self._known.values()
                if now - node.seen > FORGOTTEN and now - self._first[node.id] > _DOUBT
            ]
            for name in gone:
                del self._known[name], self._first[name]
                self._written.pop(name, None)
            if gone:
                self._lying = {key: at_us for key, at_us in self._lying.items() if key[1] in self._known}
            return gone

    def to_write(self) -> list[Known]:
        """Those the database does not know, or not well enough."""
        with self._lock:
            return [node for node in self._known.values() if _is_news(node, self._written.get(node.id))]

    def wrote(self, nodes: Iterable[Known]) -> None:
        with self._lock:
            for node in nodes:
                if node.id in self._known:
                    self._written[node.id] = node

    def take_used_keys(self) -> set[str]:
        with self._lock:
            used, self._used = self._used, set()
            return used


def merged(ours: Iterable[Known], rows: Iterable[Beat]) -> list[Known]:
    """What we heard and what the database has, the later of each node; by id."""
    nodes = {node.id: node for node in ours}
    for row in rows:
        there = nodes.get(row.node)
        if there is not None and (there.seen, there.position) >= (row.seen, row.position):
            continue
        try:
            body = json.loads(row.body)
        except ValueError:
            body = {}
        at_us = body.pop("at_us", 0) if isinstance(body, dict) else 0
        body = body if isinstance(body, dict) else {}
        nodes[row.node] = Known(row.node, row.region, row.position, at_us, row.seen, body)
    return [nodes[name] for name in sorted(nodes)]


def _is_news(node: Known, written: Known | None) -> bool:
    if written is None:
        return True
    return node.position != written.position or node.seen - written.seen >= _WRITE_AGAIN


def _read(note: Mapping[str, Any], seen: datetime) -> Known | None:
    name, region, at_us = note.get("id"), note.get("region"), note.get("at_us")
    if not _is_word(name) or not (region is None or _is_word(region)) or isinstance(at_us, bool):
        return None
    try:
        position = Position.parse(note.get("position"))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if not isinstance(at_us, int) or max(abs(at_us), position.epoch, position.version) > _NUMBER_MAX:
        return None
    rest = {key: value for key, value in note.items() if key not in _UNTOLD}
    return Known(str(name), region, position, at_us, seen, rest)


def _is_word(text: object) -> bool:
    if not isinstance(text, str) or not 0 < len(text) <= _ID_CHARS_MAX or not text.isprintable():
        return False
    return len(text.encode()) <= _ID_BYTES_MAX


def _earlier(now: datetime, at_us: object) -> datetime:
    if not isinstance(at_us, int) or at_us < 0:
        return now
    try:
        return min(now, datetime.fromtimestamp(at_us / 1e6, UTC))
    except (OverflowError, ValueError, OSError):
        return now
