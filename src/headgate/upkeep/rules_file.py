"""The rules file of a running node: notices a change, loads it, and keeps the old rules when the new are broken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.limiter import Limiter
from headgate.upkeep.watched_files import WatchedFiles

STARTER_FILE = Path(__file__).parent.parent / "starter.yaml"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a reload. `error` is None when the new rules are in force."""

    error: str | None


class RulesFile:
    """`load` once, `poll` now and then, `reload` on demand."""

    def __init__(self, limiter: Limiter, path: str | os.PathLike[str]) -> None:
        self._limiter = limiter
        self.path = os.fspath(path)
        self._watched = WatchedFiles(path)

    def load(self) -> None:
        """The first time: raises RulesFileError, since there are no old rules to go on with."""
        self._watched.remember()
        self._limiter.reload(self.path)

    def poll(self) -> Outcome | None:
        """Reload if the file changed; None when it did not."""
        return self._try_load() if self._watched.changed() else None

    def reload(self) -> Outcome:
        """Reload whether or not it seems changed."""
        self._watched.remember()
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
