"""What was found, how bad it is, and what to do about it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

# Places named in one finding; more of the same tell nothing new.
PLACES_MAX = 5


class Level(enum.IntEnum):
    """In rising order of urgency."""

    OK = 0
    NOTE = 1
    WARNING = 2
    PROBLEM = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """`code` is for machines, and names what was looked at before the dot; `seen` may speak of several places."""

    level: Level
    code: str
    title: str
    seen: str
    do: str = ""

    @property
    def area(self) -> str:
        return self.code.partition(".")[0]

    def as_dict(self) -> dict[str, str]:
        return {
            "level": self.level.word,
            "code": self.code,
            "title": self.title,
            "seen": self.seen,
            "do": self.do,
        }


def well(code: str, title: str, seen: str) -> Finding:
    return Finding(Level.OK, code, title, seen)


def note(code: str, title: str, seen: str, do: str = "") -> Finding:
    return Finding(Level.NOTE, code, title, seen, do)


def warning(code: str, title: str, seen: str, do: str) -> Finding:
    return Finding(Level.WARNING, code, title, seen, do)


def problem(code: str, title: str, seen: str, do: str) -> Finding:
    return Finding(Level.PROBLEM, code, title, seen, do)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same of several places as one finding that names them."""
    places: dict[Finding, list[str]] = {}
    for finding in findings:
        places.setdefault(replace(finding, seen=""), []).append(finding.seen)
    return [replace(finding, seen=_listed(seen)) for finding, seen in places.items()]


def worst(findings: Iterable[Finding]) -> Level:
    return max((finding.level for finding in findings), default=Level.OK)


def _listed(seen: list[str]) -> str:
    more = len(seen) - PLACES_MAX
    return "; ".join(seen[:PLACES_MAX]) + (f"; and {more} more" if more > 0 else "")
