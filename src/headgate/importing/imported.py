"""What reading another limiter's files gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# `cannot`: left out, because no rule says it. `differs`: imported, and behaves otherwise in some case.
# `note`: imported as it was; what to do or to know beside it.
Level = Literal["cannot", "differs", "note"]


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody who moves in should read. `where` is `file:line:column`, or a file where all of it is meant."""

    level: Level
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A rules document as plain data, in the order it is to be printed, and what is to be said of it."""

    document: dict[str, Any]
    notes: tuple[Note, ...] = ()
