"""Files that may change under a running node: has what is in them changed since they were last read?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence

from headgate.errors import ConfigError

_HASH_CHUNK_BYTES = 1024 * 1024

# What a file looks like from outside: modified (ns), bytes, device, inode. None when it cannot be seen.
Stamp = tuple[int, int, int, int] | None


class WatchedFiles:
    """`remember` before reading them, `changed` now and then."""

    def __init__(self, *paths: str | os.PathLike[str]) -> None:
        self.paths = [os.fspath(path) for path in paths]
        self._stamps: list[Stamp] = []
        self._digests: list[bytes | None] = []

    def remember(self) -> None:
        """Always before reading: a write that comes in between is then seen by the next look."""
        self._stamps = [_look(path) for path in self.paths]
        self._digests = [_hash(path) for path in self.paths]

    def changed(self) -> bool:
        """Whether they hold something else than when last remembered; they are remembered anew then."""
        if [_look(path) for path in self.paths] == self._stamps:
            return False
        digests = self._digests
        self.remember()
        # Editors and config maps rewrite files without changing them; that is no change. A file that cannot be read is.
        return None in digests or None in self._digests or digests != self._digests


class WatchedFolder:
    """The same for files that come and go. `found` says which there are; what it raises is that there are none."""

    def __init__(self, found: Callable[[], Sequence[str | os.PathLike[str]]]) -> None:
        self._found = found
        self._files = WatchedFiles()

    def remember(self) -> None:
        self._files = WatchedFiles(*self._there())
        self._files.remember()

    def changed(self) -> bool:
        """Whether other files are there than when last remembered, or they hold something else."""
        if [os.fspath(path) for path in self._there()] == self._files.paths:
            return self._files.changed()
        self.remember()
        return True

    def _there(self) -> Sequence[str | os.PathLike[str]]:
        try:
            return self._found()
        except ConfigError:
            return ()


def _look(path: str) -> Stamp:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size, seen.st_dev, seen.st_ino


def _hash(path: str) -> bytes | None:
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_HASH_CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return None
    return digest.digest()
