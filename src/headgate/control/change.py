"""What a change is asked for with, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headgate.errors import Path
from headgate.feed import Kind, Position
from headgate.storage.sql import Changed, Stored

ABSENT: Literal["absent"] = "absent"
PRESENT: Literal["present"] = "present"
Expect = int | Literal["absent", "present"] | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one entry shall be; a body of None says that it shall be gone.

    `expect` is what must be true of it before: its own version, or that it is there, or not. `place` is where it stands
    in what somebody sent, for the paths of mistakes. `text` is the canonical body, where it has been made already."""

    kind: Kind
    id: str
    body: Mapping[str, Any] | None
    expect: Expect = None
    place: Path = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """A request that is counted by another rule than before, or that a changed rule matches without winning it."""

    request: Mapping[str, Any]
    by: tuple[str, ...]
    winner_before: str | None
    winner_after: str | None
    loser: str | None = None
    why: str | None = None

    def as_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "request": dict(self.request),
            "by": list(self.by),
            "winner_before": self.winner_before,
            "winner_after": self.winner_after,
        }
        return shown | ({} if self.loser is None else {"loser": self.loser, "why": self.why})


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entries a change touched, and how many it left as they were."""

    created: int = 0
    replaced: int = 0
    deleted: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`position` is that of the change, or the head where nothing changed. `changes` may be cut (`counts` never is).

    `entry` is the first that was asked for, as it is now; None when it is gone, and after a dry run."""

    position: Position
    changed: bool
    changes: tuple[Changed, ...] = ()
    contests: tuple[Contest, ...] = ()
    counts: Counts = field(default_factory=Counts)
    entry: Stored | None = None
    dry_run: bool = False


def count(changes: tuple[Changed, ...], asked: int) -> Counts:
    created = sum(change.before is None for change in changes)
    deleted = sum(change.after is None for change in changes)
    return Counts(created, len(changes) - created - deleted, deleted, max(0, asked - len(changes)))
