"""The rules file of a running node: notices a change, loads it, and keeps the old rules when the new are broken."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.limiter import Limiter

STARTER_FILE = Path(__file__).parent.parent / "starter.yaml"
_HASH_CHUNK_BYTES = 1024 * 1024

# What a file looks like from outside: modified (ns), bytes, device, inode. None when it cannot be seen.
Stamp = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a reload. `error` is None when the new rules are in force."""

    error: str | None


class RulesFile:
    """`load` once, `poll` now and then, `reload` on demand."""

    def __init__(self, limiter: Limiter, path: str | os.PathLike[str]) -> None:
        self._limiter = limiter
        self.path = os.fspath(path)
        self._stamp: Stamp = None
        self._digest: bytes | None = None

    def load(self) -> None:
        """The first time: raises RulesFileError, since there are no old rules to go on with."""
        self._remember()
        self._limiter.reload(self.path)

    def poll(self) -> Outcome | None:
        """Reload if the file changed; None when it did not."""
        stamp = self._look()
        if stamp == self._stamp:
            return None
        digest = self._digest
        self._remember()
        if digest is not None and digest == self._digest:
            return None
        return self._try_load()

    def reload(self) -> Outcome:
        """Reload whether or not it seems changed."""
        self._remember()
        return self._try_load()

    def _try_load(self) -> Outcome:
        try:
            self._limiter.reload(self.path)
        except HeadgateError as error:
            return Outcome(str(error))
        # Whatever a file does to us, the node goes on answering by the old rules.
        except Exception as error:
            return Outcome(f"{self.path}: {type(error).__name__}: {error}")
        return Outcome(None)

    def _remember(self) -> None:
        """Always before reading: a write that comes in between is then seen by the next look."""
        self._stamp = self._look()
        self._digest = self._hash()

    def _look(self) -> Stamp:
        try:
            seen = os.stat(self.path)
        except OSError:
            return None
        return seen.st_mtime_ns, seen.st_size, seen.st_dev, seen.st_ino

    def _hash(self) -> bytes | None:
        """Editors and config maps rewrite files without changing them; that is no change."""
        digest = hashlib.blake2b(digest_size=16)
        try:
            with open(self.path, "rb") as file:
                while chunk := file.read(_HASH_CHUNK_BYTES):
                    digest.update(chunk)
        except OSError:
            return None
        return digest.digest()
