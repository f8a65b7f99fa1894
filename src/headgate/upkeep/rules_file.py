"""The rules file of a running node: notices a change, loads it, and keeps the old rules when the new are broken.

A folder is one of envoyproxy/ratelimit's: its files are read as rules each time one of them changes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.importing.envoy import read_envoy
from headgate.importing.envoy_folder import envoy_files
from headgate.importing.imported import Note
from headgate.limiter import Limiter
from headgate.upkeep.watched_files import WatchedFiles, WatchedFolder

STARTER_FILE = Path(__file__).parent.parent / "starter.yaml"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a reload. `error` is None when the new rules are in force."""

    error: str | None


class RulesFile:
    """`load` once, `poll` now and then, `reload` on demand. `notes` are what reading a folder had to say."""

    def __init__(self, limiter: Limiter, path: str | os.PathLike[str]) -> None:
        self._limiter = limiter
        self.path = os.fspath(path)
        self.notes: tuple[Note, ...] = ()
        # Once and for all: a folder that is gone for a moment is no file.
        self._folder = Path(path) if os.path.isdir(path) else None
        self._watched = WatchedFiles(path) if self._folder is None else WatchedFolder(self._files)

    def load(self) -> None:
        """The first time: raises RulesFileError, since there are no old rules to go on with."""
        self._watched.remember()
        self._load()

    def poll(self) -> Outcome | None:
        """Reload if the file changed; None when it did not."""
        return self._try_load() if self._watched.changed() else None

    def reload(self) -> Outcome:
        """Reload whether or not it seems changed."""
        self._watched.remember()
        return self._try_load()

    def _files(self) -> list[Path]:
        return [] if self._folder is None else envoy_files([self._folder])

    def _load(self) -> None:
        if self._folder is None:
            self._limiter.reload(self.path)
            return
        imported = read_envoy([self._folder])
        self._limiter.reload(imported.document)
        self.notes = imported.notes

    def _try_load(self) -> Outcome:
        try:
            self._load()
        except HeadgateError as error:
            return Outcome(str(error))
        # Whatever a file does to us, the node goes on answering by the old rules.
        except Exception as error:
            return Outcome(f"{self.path}: {type(error).__name__}: {error}")
        return Outcome(None)
