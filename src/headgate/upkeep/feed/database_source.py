"""The control plane's database, read directly: told by NOTIFY on PostgreSQL, else looked at every so often.

Deltas are made here and under the node's own key, so that all sources look the same to whoever follows them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from headgate.errors import HeadgateError, StorageDown
from headgate.feed.codec import encode_delta, write_snapshot
from headgate.feed.entry import Position
from headgate.storage.sql import Database, TooLarge, Transaction, entries, fleet, history
from headgate.storage.sql.driver import SQLITE_SCHEME, sqlite_path
from headgate.storage.sql.moments import microseconds
from headgate.upkeep.feed.source import Answer, Deltas, Nothing, Pulse, SourceError, TakeSnapshot

DELTA_BYTES_MOST = 4 * 1024 * 1024
DELTA_CHANGES_MOST = 50_000
ANSWER_TIMEOUT_S = 5.0
SNAPSHOT_TIMEOUT_S = 60.0
# Part of a wait that is left to chance, so that nodes started together do not ask together.
JITTER = 0.1
CLOSE_TIMEOUT_S = 2.0
# How soon a wait notices that it is over.
_SLICE_S = 0.5


class DatabaseSource:
    """A look costs one small query; `poll_s` is the longest time between two."""

    proves = True
    # Each is a transaction.
    beat_least_s = 1.0

    def __init__(self, url: str, *, key: bytes, poll_s: float, is_listening: bool) -> None:
        self._database = Database(url)
        self._file = sqlite_path(url) if url.startswith(SQLITE_SCHEME) else None
        self._key = key
        self._poll_s = poll_s
        self._listener = self._database.listener() if is_listening else None
        self._next_look_s = 0.0
        # What it was once behind of.
        self._doubted: Position | None = None
        self._busy = threading.Lock()
        self._closing = threading.Event()
        self.name = self._database.place
        self.wait_s = poll_s

    def connect(self) -> None:
        with self._reading():
            pass

    def snapshot(self, to_path: str) -> Position:
        with (
            self._busy,
            self._reading(SNAPSHOT_TIMEOUT_S) as tx,
            open(os.open(to_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file,
        ):
            write_snapshot(file, self._key, tx.head, _committed_us(tx), entries.all(tx))
            return tx.head

    def changes(self, after: Position, wait_s: float) -> Answer:
        with self._busy:
            if wait_s > 0 and not self._wait(min(time.monotonic() + wait_s, self._next_look_s)):
                return Nothing(is_proof=False)
            with self._reading() as tx:
                self._next_look_s = time.monotonic() + self._poll_s * (1 - JITTER * random.random())
                return self._since(tx, after)

    def pulse(self) -> Pulse | None:
        return None

    def beat(self, heartbeat: str) -> None:
        """A row of its own, which needs no lock that changes need."""
        said = json.loads(heartbeat)
        seen = datetime.fromtimestamp(said["at_us"] / 1_000_000, UTC)
        beat = fleet.Beat(said["id"], said["region"], Position.parse(said["position"]), seen, heartbeat)
        try:
            with self._database.aside(timeout_s=ANSWER_TIMEOUT_S) as tx:
                fleet.put(tx, [beat])
        except HeadgateError as error:
            raise SourceError(self._words(error)) from None

    def close(self) -> None:
        self._closing.set()
        # Connections are closed by nobody else while one is read from.
        if self._busy.acquire(timeout=CLOSE_TIMEOUT_S):
            if self._listener is not None:
                self._listener.close()
            self._database.close()
            self._busy.release()

    def _since(self, tx: Transaction, after: Position) -> Answer:
        head = tx.head
        if head == after:
            return Nothing()
        if head < after:
            self._doubted = after
            raise SourceError(f"is at {head}, behind what is enforced ({after}): a replica, or it went back in time")
        if head.epoch != after.epoch:
            return TakeSnapshot(f"it began a new epoch: {head}")
        if after == self._doubted:
            # Unless it is a replica that has caught up, its versions up to here are others than those we have.
            return TakeSnapshot(f"it was behind, and its log may be another: {head}")
        found = history.entries_between(
            tx, after.version, head.version, limit_bytes=DELTA_BYTES_MOST, limit_changes=DELTA_CHANGES_MOST
        )
        if isinstance(found, TooLarge):
            return TakeSnapshot(f"{found.changes} changes are too many for a delta")
        return Deltas((encode_delta(self._key, after, head, _committed_us(tx), found),))

    def _wait(self, until_s: float) -> bool:
        """Whether it is time to look: something changed, or the last look is long ago."""
        while not self._closing.is_set():
            left_s = min(_SLICE_S, until_s - time.monotonic())
            if left_s <= 0:
                break
            if self._listener is None:
                self._closing.wait(left_s)
            elif self._heard(left_s):
                return True
        return time.monotonic() >= self._next_look_s

    def _heard(self, wait_s: float) -> bool:
        listener = self._listener
        assert listener is not None
        try:
            return listener.wait(wait_s)
        except StorageDown as error:
            raise SourceError(self._words(error)) from None

    @contextlib.contextmanager
    def _reading(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Iterator[Transaction]:
        if self._closing.is_set():
            raise SourceError("is closed")
        if self._file is not None and not os.path.exists(self._file):
            # Or SQLite would make an empty one.
            raise SourceError(f"there is no file {self._file}")
        try:
            with self._database.read(timeout_s=timeout_s) as tx:
                yield tx
        except SourceError:
            raise
        except HeadgateError as error:
            raise SourceError(self._words(error)) from None

    def _words(self, error: Exception) -> str:
        """Without the name, which whoever shows it says before."""
        return str(error).removeprefix(f"{self.name}: ")


def _committed_us(tx: Transaction) -> int:
    """When the newest change was made, by the control plane's clock."""
    last = history.version(tx, tx.head.version)
    return time.time_ns() // 1000 if last is None else microseconds(last.at)
