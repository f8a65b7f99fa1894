"""The broker of a region: one Redis or Valkey that carries changes from the control plane to the region's nodes.

    PREFIX:deltas               a stream; entry `<version>-0` holds a delta (`d`) or a marker (`s`: take the snapshot)
    PREFIX:snapshot             the pointer to the newest snapshot, sealed
    PREFIX:snapshot:NAME:<n>    its parts, 1 MiB each
    PREFIX:pulse                the position that is published, and when a publisher last saw to it; sealed
    PREFIX:nodes                a hash, node → its last heartbeat, sealed

Everything is authenticated with the feed key, so a broker need not be trusted: whoever writes into it can hold
changes back for a moment and cannot change a rule. One `Broker` may be used by many threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from headgate.errors import FeedError
from headgate.feed.codec import check_key, delta_span, snapshot_position
from headgate.feed.entry import Position
from headgate.storage import streams_scripts as scripts
from headgate.storage.streams_client import broker_errors, connect, shown
from headgate.storage.streams_upload import Upload
from headgate.storage.streams_words import (
    PART_BYTES,
    BrokerState,
    Deltas,
    Item,
    Nothing,
    Pointer,
    Pulse,
    StreamState,
    TakeSnapshot,
    open_note,
    read_item,
    read_pointer,
    read_pulse,
    stream_state,
    write_marker,
    write_note,
    write_pointer,
    write_pulse,
)
from headgate.storage.whole_file import replacing

__all__ = [
    "Broker",
    "BrokerState",
    "Deltas",
    "Item",
    "Nothing",
    "Pointer",
    "Pulse",
    "StreamState",
    "TakeSnapshot",
    "Upload",
]

PREFIX = "hgfeed"
ENTRIES_MAX = 10_000
READ_COUNT = 16
# The longest a reader sleeps on the stream before it looks at the pulse: a stream that began anew wakes nobody.
SLICE_MS = 1000
# How long the parts of a snapshot live on when there is a newer one, and when their upload was broken off.
OLD_PARTS_S = 120
UPLOAD_S = 3600
# More than a control plane remembers, so that it takes somebody's ill will to have as many.
NODES_MAX = 20_000


class Broker:
    """Both sides: publishers append deltas, snapshots and pulses; nodes read them and leave heartbeats.

    Every method may raise BrokerDown, within seconds.
    """

    def __init__(self, url: str, *, key: bytes, prefix: str = PREFIX) -> None:
        self.where = shown(url)
        self._key = check_key(key)
        self._redis: Any = connect(url)
        self._deltas = f"{prefix}:deltas"
        self._pointer = f"{prefix}:snapshot"
        self._pulse = f"{prefix}:pulse"
        self._nodes = f"{prefix}:nodes"
        self._closing = threading.Event()

    def __repr__(self) -> str:
        return f"Broker({self.where})"

    def close(self) -> None:
        """Whoever reads is given Nothing or BrokerDown soon after."""
        self._closing.set()
        with contextlib.suppress(Exception):
            self._redis.close()

    # What nodes do.

    def read(self, after: Position, block_ms: int) -> Deltas | TakeSnapshot | Nothing:
        """What follows `after`; waits up to `block_ms` for it. Stops waiting when the broker is closed."""
        deadline_s = time.monotonic() + block_ms / 1000
        while True:
            left_ms = int((deadline_s - time.monotonic()) * 1000)
            slice_ms = max(1, min(SLICE_MS, left_ms))
            since_s = time.monotonic()
            found = self._judge(after, self._entries_after(after, slice_ms))
            if found is not None:
                return found
            # What is there cannot be used (forged, or of an older epoch) and would be read again at once: a publisher
            # clears it away, give it time.
            self._closing.wait(max(0.0, slice_ms / 1000 - (time.monotonic() - since_s)))
            # The pulse first: whatever it speaks of was in the stream before.
            pulse = self.last_pulse()
            found = self._judge(after, self._entries_after(after, None))
            if found is None and pulse is not None and pulse.position > after:
                found = TakeSnapshot(f"{pulse.position} is published, and the stream does not lead there from {after}")
            if found is not None:
                return found
            if self._closing.is_set() or time.monotonic() >= deadline_s:
                return Nothing(pulse)

    def last_pulse(self) -> Pulse | None:
        """None when there is none, or it is not authentic."""
        return read_pulse(self._key, self._get(self._pulse))

    def fetch_snapshot(self, to_path: str) -> Position:
        """Replaces the file at `to_path`, all or nothing, and says what it is a snapshot of. Raises FeedError when
        there is none or it is incomplete, OSError when the file cannot be written. Whether it is authentic shows when
        it is applied."""
        raw = self._get(self._pointer)
        pointer = read_pointer(self._key, raw)
        if pointer is None:
            words = (
                "the broker has no snapshot yet" if raw is None else "the pointer to the broker's snapshot is forged"
            )
            raise FeedError("gap" if raw is None else "forged", words)
        with replacing(to_path) as file:
            for part in self._parts(pointer):
                file.write(part)
        return pointer.position

    def beat(self, node: str, heartbeat: Any) -> None:
        """`heartbeat` is what JSON can say; its `id` is `node`. Raises ValueError when it is too long."""
        note = write_note(self._key, "node", heartbeat)
        with broker_errors(self.where):
            self._redis.hset(self._nodes, node, note)

    # What publishers do.

    def nodes(self) -> dict[str, Any]:
        """The last heartbeat of each node. What is not authentic is thrown away: it would be read every second."""
        with broker_errors(self.where):
            kind = self._redis.type(self._nodes)
            if kind not in (b"none", b"hash") or (kind == b"hash" and self._redis.hlen(self._nodes) > NODES_MAX):
                # Somebody's mischief. Nodes that live are there again in a moment.
                self._redis.unlink(self._nodes)
                return {}
            found = self._redis.hgetall(self._nodes)
        heard, others = {}, []
        for name, raw in found.items():
            note = None
            with contextlib.suppress(FeedError, TypeError, ValueError):
                note = open_note(self._key, "node", raw)
            if isinstance(note, dict) and str(note.get("id")).encode() == name:
                heard[note["id"]] = note
            else:
                others.append(name)
        self.forget_nodes(others)
        return heard

    def forget_nodes(self, nodes: Iterable[str | bytes]) -> None:
        if names := list(nodes):
            with broker_errors(self.where):
                self._redis.hdel(self._nodes, *names)

    def state(self) -> BrokerState:
        with broker_errors(self.where):
            pipe = self._redis.pipeline(transaction=False)
            pipe.eval(scripts.LOOK, 1, self._deltas)
            pipe.get(self._pointer)
            pipe.get(self._pulse)
            look, raw, pulse = pipe.execute(raise_on_error=False)
            if isinstance(look, Exception):
                raise look
            pointer = read_pointer(self._key, raw)
            present = pointer is not None and self._redis.exists(*pointer.part_names()) == pointer.parts
        known = raw if isinstance(raw, bytes) else b""
        return BrokerState(stream_state(look), pointer, known, present, read_pulse(self._key, pulse))

    def items_after(self, version: int, count: int) -> list[Item | None]:
        """The stream's entries; None for each that is not authentic."""
        with broker_errors(self.where):
            found = self._redis.xrange(self._deltas, min=f"({version}-0", count=count)
        return [read_item(self._key, entry_id, fields) for entry_id, fields in found]

    def last_item(self) -> Item | None:
        """None when it is not authentic, or there is none."""
        with broker_errors(self.where):
            found = self._redis.xrevrange(self._deltas, count=1)
        return read_item(self._key, *found[0]) if found else None

    def publish_delta(self, raw: bytes, *, after_id: str) -> bool:
        """Appends it if the stream still ends with `after_id`; else nothing happens and the answer is False."""
        _, to = delta_span(self._key, raw)
        return self._append(after_id, to, "d", raw)

    def publish_marker(self, since: Position, to: Position, *, after_id: str) -> bool:
        """In place of a delta that would be too large. The snapshot of `to`, or a later one, must be there before."""
        return self._append(after_id, to, "s", write_marker(self._key, since, to))

    def reset_stream(self, seen: StreamState) -> bool:
        """Deletes the stream if it is still the one that was seen."""
        with broker_errors(self.where):
            return bool(self._redis.eval(scripts.RESET, 1, self._deltas, seen.last_id, str(seen.added)))

    def upload(self, path: str, at_us: int) -> Upload:
        """Of a snapshot file. Step it until it is whole, then `point_to` it."""

        def put(name: str, part: bytes) -> None:
            with broker_errors(self.where):
                self._redis.set(name, part, ex=UPLOAD_S)

        return Upload(path, self._pointer, at_us, put)

    def point_to(self, upload: Upload, seen: BrokerState) -> Pointer | None:
        """Makes it the snapshot if the pointer is still the one that was seen; else the answer is None. The stream is
        trimmed to what lies after the snapshot before this one."""
        pointer, old = upload.pointer(), seen.pointer
        same_epoch = old is not None and old.position.epoch == pointer.position.epoch
        keep_from = f"{old.position.version + 1}-0" if old is not None and same_epoch else "0-0"
        old_parts = (old.name, old.parts) if old is not None else ("", 0)
        raw = write_pointer(self._key, pointer)
        keys = (self._pointer, self._deltas)
        words = (seen.pointer_raw, raw, pointer.name, pointer.parts, *old_parts, OLD_PARTS_S, keep_from)
        with broker_errors(self.where):
            if self._redis.eval(scripts.SWITCH, len(keys), *keys, *words):
                return pointer
            self._redis.unlink(*pointer.part_names())
        return None

    def publish_snapshot(self, path: str, seen: BrokerState, at_us: int) -> Pointer | None:
        """`upload` and `point_to` in one go."""
        with contextlib.closing(self.upload(path, at_us)) as upload:
            while not upload.is_whole:
                upload.step()
            return self.point_to(upload, seen)

    def parts_are_intact(self, pointer: Pointer, numbers: Iterable[int]) -> bool:
        """Whether these parts are what was uploaded. The broker reckons; nothing travels."""
        chosen = list(numbers)
        with broker_errors(self.where):
            pipe = self._redis.pipeline(transaction=False)
            for number in chosen:
                pipe.eval(scripts.SUM, 1, f"{pointer.name}{number}")
            found = pipe.execute()
        return all(sum.decode() == pointer.sums[number] for sum, number in zip(found, chosen, strict=True))

    def pulse(self, position: Position, at_us: int) -> None:
        """After whatever leads to `position` is there."""
        with broker_errors(self.where):
            self._redis.set(self._pulse, write_pulse(self._key, Pulse(position, at_us)))

    def _append(self, after_id: str, to: Position, field: str, value: bytes) -> bool:
        words = (after_id, f"{to.version}-0", field, value, ENTRIES_MAX)
        with broker_errors(self.where):
            return bool(self._redis.eval(scripts.APPEND, 1, self._deltas, *words))

    def _get(self, name: str) -> object:
        with broker_errors(self.where):
            return self._redis.get(name)

    def _entries_after(self, after: Position, block_ms: int | None) -> list[tuple[bytes, dict[bytes, bytes]]]:
        with broker_errors(self.where):
            found = self._redis.xread({self._deltas: f"{after.version}-0"}, count=READ_COUNT, block=block_ms)
        return list(found[0][1]) if found else []

    def _judge(self, after: Position, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> Deltas | TakeSnapshot | None:
        """None when there is nothing that can be used."""
        good: list[bytes] = []
        at = after
        for entry_id, fields in entries:
            item = read_item(self._key, entry_id, fields)
            if item is None or item.to.epoch < at.epoch:
                break
            if item.raw is None or item.to.epoch > at.epoch or item.since > at:
                if not good:
                    return TakeSnapshot(f"the stream leads from {item.since} to {item.to}, not on from {after}")
                break
            good.append(item.raw)
            at = item.to
        return Deltas(tuple(good), at) if good else None

    def _parts(self, pointer: Pointer) -> Iterator[bytes]:
        total = 0
        for number, name in enumerate(pointer.part_names()):
            part = self._get(name)
            if not isinstance(part, bytes) or len(part) > PART_BYTES:
                raise FeedError("corrupt", f"part {number} of the broker's snapshot of {pointer.position} is missing")
            if number == 0 and snapshot_position(part) != pointer.position:
                raise FeedError("corrupt", f"the broker's snapshot is not of {pointer.position}")
            total += len(part)
            yield part
        if total != pointer.bytes:
            words = f"the broker's snapshot of {pointer.position} has {total} bytes, not {pointer.bytes}"
            raise FeedError("corrupt", words)
