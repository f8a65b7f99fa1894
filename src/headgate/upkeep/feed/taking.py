"""Puts what a source gives into the limiter, and what the limiter took onto disk.

The newest position wins: what is older than what is enforced is never taken, whoever sends it, so that an old snapshot
played back cannot bring old rules back to life.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headgate.errors import FeedError, HeadgateError
from headgate.feed.codec import delta_reach, delta_span
from headgate.feed.entry import START, Position
from headgate.upkeep.feed.disk import Disk
from headgate.upkeep.feed.source import Source, SourceError

# Of what the engine refused, as many are shown to the control plane and in the log.
REFUSED_SHOWN = 5
# A journal that fills up again and again must not make every node fetch snapshots all the time.
SNAPSHOT_FOR_DISK_EVERY_S = 60.0
# Nor must rules that are truly too many.
SNAPSHOT_FOR_ROOM_EVERY_S = 600.0

Refused = tuple[str, str, str]


class Applied(Protocol):
    """What the engine says of a delta or a snapshot it took."""

    @property
    def epoch(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def refused(self) -> Sequence[Refused]: ...
    @property
    def is_full(self) -> bool:
        """Whether some were refused for want of room, which what is long gone may still take."""


class Enforcer(Protocol):
    """The part of a `Limiter` that a feed needs."""

    def apply_delta(self, raw: bytes, key: bytes) -> Applied: ...
    def apply_snapshot(self, path: str, key: bytes) -> Applied: ...
    def feed_position(self) -> tuple[int, int]: ...
    def take_used_keys(self, limit: int) -> list[str]: ...
    def set_feed_status(self, *, contact_us: int, source: str, error: str | None) -> None: ...
    def rule_count(self) -> int: ...
    def store_status(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """How things stand after the last change."""

    position: Position = START
    # From the change's commit, by the control plane's clock, to its enforcement here. None for snapshots.
    lag_ms: float | None = None
    refused: tuple[Refused, ...] = ()


class Taker:
    """Used by the thread that reads; `taken` by any."""

    def __init__(
        self, limiter: Enforcer, key: bytes, disk: Disk | None, log: Any, changed: Callable[[Position], None]
    ) -> None:
        self._limiter = limiter
        self._key = key
        self._disk = disk
        self._log = log
        self._changed = changed
        self._next_for_disk_s = 0.0
        self._is_full = False
        self._next_for_room_s = 0.0
        position = Position(*limiter.feed_position())
        self.taken = Taken(position)
        # Where the source is read from: what is enforced, or what is on disk where that is less.
        self.cursor = position

    @property
    def position(self) -> Position:
        return self.taken.position

    def load(self, disk: Disk) -> bool:
        """Whether rules of the disk, ours or another process's, are now enforced. What is damaged is said in the log
        and left alone."""
        if not disk.has_snapshot:
            return False
        try:
            applied = self._limiter.apply_snapshot(disk.path, self._key)
        except (HeadgateError, OSError) as error:
            self._log.error("the rules on disk are refused; others are looked for", file=disk.path, error=str(error))
            return False
        self._note(applied, None)
        self._load_journal(disk)
        self._log.info("rules taken from disk", file=disk.path, position=str(self.position))
        return True

    def deltas(self, raws: Sequence[bytes]) -> None:
        """Raises FeedError at the first that does not fit or is not authentic; those before it are taken."""
        for raw in raws:
            self._delta(raw)
            if self._disk is not None:
                with self._disk_trouble():
                    self._disk.append(raw)

    def snapshot(self, source: Source) -> None:
        """Raises SourceError when the source has none that is newer than what is enforced."""
        with self._draft() as path:
            offered = source.snapshot(path)
            if offered <= self.position:
                raise SourceError(_no_newer(offered, self.position))
            self._take(path, source)

    def take_care(self, source: Source) -> None:
        """Fetches a snapshot where deltas alone would not do for ever: now and then, whatever they do. Raises
        SourceError."""
        now_s = time.monotonic()
        if self._disk is not None and self._disk.wants_snapshot and now_s >= self._next_for_disk_s:
            self._next_for_disk_s = now_s + SNAPSHOT_FOR_DISK_EVERY_S
            self._shorten(self._disk, source)
        if self._is_full and now_s >= self._next_for_room_s:
            self._next_for_room_s = now_s + SNAPSHOT_FOR_ROOM_EVERY_S
            self._make_room(source)

    def _shorten(self, disk: Disk, source: Source) -> None:
        """The journal has grown too long. A snapshot that is older than what is enforced is welcome here: what comes
        after it is read again."""
        with self._draft() as path:
            offered = source.snapshot(path)
            if offered > self.position or offered.epoch != self.position.epoch:
                return
            try:
                with self._disk_trouble():
                    self.cursor = min(self.position, disk.keep(path, self._key))
            except FeedError as error:
                raise SourceError(f"its snapshot is refused: {error}") from None

    def _make_room(self, source: Source) -> None:
        """Entries were refused for want of room: taking all of them anew forgets what is gone. A snapshot that is older
        than what is enforced is of no use for that."""
        with self._draft() as path:
            if source.snapshot(path) >= self.position:
                self._is_full = False
                self._take(path, source)

    def _delta(self, raw: bytes) -> None:
        since, to, at_us = delta_reach(raw)
        if to <= self.cursor:
            return
        if since > self.cursor or since.epoch != self.cursor.epoch:
            raise FeedError("gap", f"a delta goes on from {since}, and what is here is {self.cursor}")
        applied = self._limiter.apply_delta(raw, self._key)
        self.cursor = to
        if Position(applied.epoch, applied.version) > self.position:
            self._note(applied, max(0.0, (time.time_ns() // 1000 - at_us) / 1000))

    def _load_journal(self, disk: Disk) -> None:
        good = 0
        try:
            for end, raw in disk.journal():
                _, to = delta_span(self._key, raw)
                if to > self.position:
                    self._note(self._limiter.apply_delta(raw, self._key), None)
                good = end
        except (HeadgateError, OSError) as error:
            self._log.warning("the rest of the rules' journal is refused", file=disk.journal_path, error=str(error))
        self.cursor = self.position
        if disk is not self._disk:
            return
        with self._disk_trouble():
            if cut := disk.resume(good):
                self._log.warning("a damaged end of the rules' journal was cut off", file=disk.journal_path, bytes=cut)

    def _note(self, applied: Applied, lag_ms: float | None) -> None:
        refused = tuple(applied.refused[:REFUSED_SHOWN])
        position = Position(applied.epoch, applied.version)
        self.taken = Taken(position, self.taken.lag_ms if lag_ms is None else lag_ms, refused)
        self._is_full = self._is_full or applied.is_full
        if applied.refused:
            shown = "; ".join(f"{kind} {name}: {message}" for kind, name, message in refused)
            self._log.error(
                "entries of the feed are refused; the rest is enforced", count=len(applied.refused), error=shown
            )
        self._changed(position)

    def _take(self, path: str, source: Source) -> None:
        try:
            applied = self._limiter.apply_snapshot(path, self._key)
        except FeedError as error:
            raise SourceError(f"its snapshot is refused: {error}") from None
        self._note(applied, None)
        self.cursor = self.position
        self._log.info("rules taken from a snapshot", source=source.name, position=str(self.position))
        if self._disk is not None:
            with self._disk_trouble():
                self._disk.keep(path)

    @contextlib.contextmanager
    def _draft(self) -> Iterator[str]:
        if self._disk is not None:
            path = self._disk.draft_path
        else:
            number, path = tempfile.mkstemp(prefix="headgate-", suffix=".hgs")
            os.close(number)
        try:
            yield path
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)

    @contextlib.contextmanager
    def _disk_trouble(self) -> Iterator[None]:
        """A full or broken disk must not keep rules from being enforced."""
        try:
            yield
        except OSError as error:
            self._log.error("the rules cannot be kept on disk; they are enforced all the same", error=str(error))


def _no_newer(offered: Position, ours: Position) -> str:
    if offered.epoch < ours.epoch:
        return (
            f"its rules are of an older epoch ({offered}) than those enforced ({ours}): it was replaced by an old "
            "copy, or belongs to another control plane (to take it all the same, stop the node and remove its snapshot)"
        )
    return f"its snapshot ({offered}) is no newer than what is enforced ({ours})"
