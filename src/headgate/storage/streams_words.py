"""What a broker holds and what reading it can give. Pure: no connection is made here.

Notes (the pointer to the snapshot, the pulse, markers, heartbeats) are sealed with the feed key, each under a word of
its own, so that no note can stand for another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headgate.errors import FeedError
from headgate.feed.codec import delta_span, seal, unseal
from headgate.feed.entry import Position

PART_BYTES = 1024 * 1024
PARTS_MAX = 4096
NOTE_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a publisher last said of itself: the newest position it has seen to, and when (its own clock)."""

    position: Position
    at_us: int


@dataclass(frozen=True, slots=True)
class Deltas:
    """Raw deltas, authentic, in order; each follows the one before, the first what the reader has."""

    raw: tuple[bytes, ...]
    to: Position


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """The stream does not lead on from what the reader has."""

    reason: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No change came in time. `pulse` is the newest one, if it could be read and is authentic."""

    pulse: Pulse | None


@dataclass(frozen=True, slots=True)
class Item:
    """An authentic entry of the stream: a delta, or (without `raw`) a marker: take the snapshot."""

    since: Position
    to: Position
    raw: bytes | None


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the snapshot is. `name` is what its parts' keys begin with, made anew for each; `sums` are the parts'
    SHA-1, which a broker can tell without sending them."""

    position: Position
    name: str
    bytes: int
    at_us: int
    sums: tuple[str, ...]

    @property
    def parts(self) -> int:
        return len(self.sums)

    def part_names(self) -> list[str]:
        return [f"{self.name}{number}" for number in range(self.parts)]


@dataclass(frozen=True, slots=True)
class StreamState:
    """How the stream looks without reading it. `kind` is `none`, `stream`, or `other`: some other type of key."""

    kind: str
    length: int = 0
    last_id: str = "0-0"
    last: int = 0
    deleted: int = 0
    added: int = 0
    first: int = 0


@dataclass(frozen=True, slots=True)
class BrokerState:
    """All a publisher looks at every second. `pointer` and `pulse` are None unless authentic."""

    stream: StreamState
    pointer: Pointer | None
    pointer_raw: bytes
    parts_present: bool
    pulse: Pulse | None

    @property
    def newest(self) -> Position | None:
        """The greatest authentic position, apart from the stream's."""
        known = [note.position for note in (self.pointer, self.pulse) if note is not None]
        return max(known, default=None)


def version_of(entry_id: bytes | str) -> int:
    """Of an entry's id, `<version>-0`; -1 for any other id, which no publisher gives."""
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    version, _, sequence = text.partition("-")
    return int(version) if sequence == "0" and version.isdigit() else -1


def stream_state(look: list[Any]) -> StreamState:
    """Of what the script LOOK replies."""
    kind = look[0].decode()
    if kind != "stream":
        return StreamState(kind)
    _, length, last_id, deleted, added, first = look
    return StreamState(
        kind, int(length), last_id.decode(), version_of(last_id), version_of(deleted), int(added), version_of(first)
    )


def read_item(key: bytes, entry_id: bytes, fields: dict[bytes, bytes]) -> Item | None:
    """None for what no publisher with this key has put there, under this id."""
    raw = fields.get(b"d")
    try:
        if raw is not None:
            since, to = delta_span(key, raw)
        else:
            note = open_note(key, "marker", fields.get(b"s"))
            since, to = Position.parse(note["since"]), Position.parse(note["to"])
    except (FeedError, KeyError, TypeError, ValueError):
        return None
    return Item(since, to, raw) if to.version == version_of(entry_id) else None


def write_marker(key: bytes, since: Position, to: Position) -> bytes:
    return write_note(key, "marker", {"since": str(since), "to": str(to)})


def write_pulse(key: bytes, pulse: Pulse) -> bytes:
    return write_note(key, "pulse", {"position": str(pulse.position), "at_us": pulse.at_us})


def read_pulse(key: bytes, raw: object) -> Pulse | None:
    try:
        note = open_note(key, "pulse", raw)
        return Pulse(Position.parse(note["position"]), int(note["at_us"]))
    except (FeedError, KeyError, TypeError, ValueError):
        return None


def write_pointer(key: bytes, pointer: Pointer) -> bytes:
    note = {
        "position": str(pointer.position),
        "name": pointer.name,
        "bytes": pointer.bytes,
        "at_us": pointer.at_us,
        "sums": pointer.sums,
    }
    return write_note(key, "snapshot", note)


def read_pointer(key: bytes, raw: object) -> Pointer | None:
    try:
        note = open_note(key, "snapshot", raw)
        position = Position.parse(note["position"])
        sums = tuple(str(sum) for sum in note["sums"][:PARTS_MAX])
        return Pointer(position, str(note["name"]), int(note["bytes"]), int(note["at_us"]), sums)
    except (FeedError, KeyError, TypeError, ValueError):
        return None


def write_note(key: bytes, word: str, note: Any) -> bytes:
    """Raises ValueError for a note that is too long."""
    text = f"{word} {json.dumps(note, separators=(',', ':'), sort_keys=True)}".encode()
    if len(text) > NOTE_BYTES_MAX:
        raise ValueError(f"a {word} of {len(text)} bytes is too long; at most {NOTE_BYTES_MAX}")
    return seal(key, text)


def open_note(key: bytes, word: str, raw: object) -> Any:
    """Raises FeedError, ValueError or TypeError for what is no note of that word sealed with this key."""
    if not isinstance(raw, bytes) or len(raw) > NOTE_BYTES_MAX + 64:
        raise TypeError(f"there is no {word}")
    head, _, text = unseal(key, raw).partition(b" ")
    if head != word.encode():
        raise ValueError(f"a note is no {word}")
    return json.loads(text)
