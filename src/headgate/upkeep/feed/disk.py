"""The last rules seen, kept on disk: a snapshot as it came, and beside it a journal of the deltas after it.

    PATH        the snapshot, replaced atomically
    PATH.log    deltas, each after its length (u32, little-endian); each carries its own mac. When it was last touched
                is when the rules were last known to be the newest.
    PATH.lock   held by the one process that writes here
    PATH.new    what is being fetched

A journal that goes with an older snapshot is no harm: whatever it says that is not newer is passed over.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import struct
from collections.abc import Iterator

from headgate.errors import ConfigError, FeedError
from headgate.feed.codec import check_snapshot, delta_reach, snapshot_position
from headgate.feed.entry import Position

JOURNAL_BYTES_MAX = 16 * 1024 * 1024
# From here on a new snapshot is looked for, while the journal still goes on from the old one.
_FILLING_UP = 0.75
_HEAD_BYTES = 64
_LENGTH = struct.Struct("<I")
_MODE = 0o600


class Disk:
    """Used by one thread, but for `sync`. `open` first; whoever finds the place taken has no disk."""

    def __init__(self, path: str, *, journal_bytes_max: int = JOURNAL_BYTES_MAX) -> None:
        self.path = os.path.abspath(path)
        self.journal_path = self.path + ".log"
        self.draft_path = self.path + ".new"
        self._journal_bytes_max = journal_bytes_max
        self._lock: int | None = None
        self._journal: int | None = None
        self._journal_bytes = 0
        # Whether the journal leads from the snapshot to what is enforced.
        self._is_whole = False

    def open(self) -> bool:
        """False when another process keeps its rules here. Raises ConfigError for a place that cannot be used."""
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            raise ConfigError(
                f"the rules cannot be kept at {self.path}: there is no folder {folder}; make it, or give another path"
            )
        if os.path.isdir(self.path):
            raise ConfigError(f"the rules cannot be kept at {self.path}: that is a folder; give the path of a file")
        try:
            lock = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise ConfigError(f"the rules cannot be kept at {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        self._clear_away()
        return True

    @property
    def has_snapshot(self) -> bool:
        return os.path.exists(self.path)

    @property
    def wants_snapshot(self) -> bool:
        """The journal is filling up, or does not lead to what is enforced: a restart would fall behind."""
        return not self._is_whole or self._journal_bytes > self._journal_bytes_max * _FILLING_UP

    def proved_us(self) -> int:
        """When the rules here were last known to be the newest, by this machine's clock; 0 if never."""
        stamps = []
        for path in (self.path, self.journal_path):
            with contextlib.suppress(OSError):
                stamps.append(os.stat(path).st_mtime_ns // 1000)
        return max(stamps, default=0)

    def journal(self) -> Iterator[tuple[int, bytes]]:
        """Each delta with the place where it ends; stops before a tail that is cut short."""
        try:
            file = open(self.journal_path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return
        with file:
            end = 0
            while len(head := file.read(_LENGTH.size)) == _LENGTH.size:
                (length,) = _LENGTH.unpack(head)
                raw = file.read(length) if length <= self._journal_bytes_max else b""
                if not length or len(raw) != length:
                    return
                end += _LENGTH.size + length
                yield end, raw

    def resume(self, end: int) -> int:
        """Go on with the journal after what was good of it; gives how many bytes were cut off."""
        journal = self._open_journal()
        size = os.fstat(journal).st_size
        os.ftruncate(journal, end)
        self._journal_bytes = end
        self._is_whole = True
        return size - end

    def append(self, raw: bytes) -> None:
        """A delta that is enforced. Past the bound it is not kept, nor is what follows, until there is a new
        snapshot."""
        size = _LENGTH.size + len(raw)
        if not self._is_whole or self._journal_bytes + size > self._journal_bytes_max:
            self._is_whole = False
            return
        # Not whole until it is written: what is cut short must not be followed by more.
        self._is_whole = False
        self._write(self._open_journal(), _LENGTH.pack(len(raw)) + raw)
        self._is_whole = True

    def keep(self, draft_path: str, key: bytes | None = None) -> Position:
        """A snapshot that was fetched takes the place of the old one, and the journal keeps only what goes on from it.
        With a key it is verified first (the engine has verified one that it took). Gives the position that both
        together lead to. Raises FeedError, OSError."""
        with open(draft_path, "rb+") as file:
            os.fchmod(file.fileno(), _MODE)
            if key is not None:
                check_snapshot(file, key)
            file.seek(0)
            position = snapshot_position(file.read(_HEAD_BYTES))
            os.fsync(file.fileno())
        later, reached = self._later_than(position)
        self._is_whole = False
        os.replace(draft_path, self.path)
        self._sync_folder()
        journal = self._open_journal()
        os.ftruncate(journal, 0)
        self._journal_bytes = 0
        for raw in later:
            self._write(journal, _LENGTH.pack(len(raw)) + raw)
        os.fdatasync(journal)
        self._is_whole = True
        return reached

    def sync(self, proved_us: int) -> None:
        """What was appended reaches the disk itself, and the time of the last proof is noted."""
        journal = self._journal
        if journal is None:
            return
        with contextlib.suppress(OSError):
            os.fdatasync(journal)
            os.utime(self.journal_path, ns=(proved_us * 1000, proved_us * 1000))

    def close(self) -> None:
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        with contextlib.suppress(OSError):
            os.unlink(self.draft_path)

    def _clear_away(self) -> None:
        """Drafts of a process that was killed."""
        for draft in glob.glob(glob.escape(self.draft_path) + "*"):
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def _later_than(self, position: Position) -> tuple[list[bytes], Position]:
        """What of the journal goes on from there without a gap. A source's snapshot may be older than what is
        enforced."""
        later = []
        for _, raw in self.journal():
            try:
                since, to, _ = delta_reach(raw)
            except FeedError:
                break
            if to > position and to.epoch == position.epoch:
                if since > position:
                    break
                later.append(raw)
                position = to
        return later, position

    def _open_journal(self) -> int:
        if self._journal is None:
            self._journal = os.open(self.journal_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        return self._journal

    def _write(self, journal: int, raw: bytes) -> None:
        """After what is there. Unbuffered: a process that is killed leaves all it has written."""
        left = memoryview(raw)
        while left:
            left = left[os.pwrite(journal, left, self._journal_bytes + len(raw) - len(left)) :]
        self._journal_bytes += len(raw)

    def _sync_folder(self) -> None:
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
