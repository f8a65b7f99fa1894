"""The feed for whoever is connected to this control plane: nodes over HTTP, and the one in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from headgate.control.cuts import Cuts
from headgate.control.epochs import Epochs
from headgate.control.head import Head
from headgate.control.snapshots import Snapshot, Snapshots
from headgate.errors import StorageDown
from headgate.feed.entry import Position

_FIRST_READ_S = 10.0
_LOOK_AGAIN_S = 1.0
_CLOCKS_APART_US = 24 * 3600 * 1_000_000
_BEHIND_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Gap:
    """No delta leads on from there: take the snapshot."""

    reason: str


class LocalFeed:
    """Any number may wait at once: the database is read once for all who want the same piece.

    Methods raise StorageDown while the database is away and nothing is known of it.
    """

    def __init__(self, head: Head, cuts: Cuts, snapshots: Snapshots, epochs: Epochs) -> None:
        self._head = head
        self._cuts = cuts
        self._snapshots = snapshots
        self._epochs = epochs

    @property
    def position(self) -> Position | None:
        """What may be told now; None before the database was first read."""
        return self._head.position

    @property
    def age_s(self) -> float:
        """Since the database last said that this is the newest."""
        return self._head.age_s

    def subscribe(self, callback: Callable[[Position], None]) -> Callable[[], None]:
        """Called with each new position, from a thread that must not be held up. Gives what ends it."""
        return self._head.subscribe(callback)

    def deltas(self, since: Position, wait_s: float) -> bytes | Gap | None:
        """What follows `since`; None when nothing came within `wait_s`."""
        end_s = time.monotonic() + wait_s
        while (head := self._known()) <= since:
            if head < since:
                # Our own may have begun while a clock was ahead.
                if since.epoch > max(time.time_ns() // 1000, head.epoch) + _CLOCKS_APART_US:
                    # A node says where it is, and nothing proves it; an epoch is the time it began at.
                    return Gap(f"{since} is of an epoch that has not come yet")
                # Told by another control plane before us; or the database has gone back in time.
                head = self._epochs.settle(since)
                if head > since:
                    break
                self._head.committed()
            left_s = end_s - time.monotonic()
            if left_s <= 0 or self._head.is_stopped:
                return None
            self._head.wait_beyond(head, min(left_s, _LOOK_AGAIN_S))
        if since.epoch != head.epoch:
            return Gap(f"{since} is of another epoch than {head}")
        raw = self._cuts.delta(since, head)
        if raw is None:
            return Gap(f"from {since} to {head} is more than a delta holds")
        return raw

    def snapshot(self) -> Snapshot:
        """A file that one delta leads on from, at most; its name is removed when there are newer ones."""
        head, newest = self._known(), self._snapshots.newest
        # In a burst of changes the newest is never quite new, and need not be.
        if newest is None or newest.position.epoch != head.epoch or newest.position >= head:
            return self._snapshots.take(at_least=head)
        if self._cuts.delta(newest.position, head) is None:
            return self._snapshots.take(at_least=head)
        if head.version - newest.position.version > _BEHIND_MAX:
            self._snapshots.want()
        return self._snapshots.take(at_least=newest.position)

    def snapshot_path(self) -> str:
        return self.snapshot().path

    def open_snapshot(self) -> tuple[BinaryIO, Snapshot]:
        """The file open for reading: its name may be removed meanwhile. Whoever opens it closes it."""
        while True:
            snapshot = self.snapshot()
            try:
                return open(snapshot.path, "rb"), snapshot
            except FileNotFoundError:
                continue

    def _known(self) -> Position:
        head = self._head.position or self._head.wait_beyond(None, _FIRST_READ_S)
        if head is None:
            raise StorageDown(self._head.error or "the database has not been read yet; try again in a moment")
        return head
