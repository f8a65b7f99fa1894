"""The words of the feed: an entry of the configuration, and a place in its log."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

_POSITION = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})\Z")


class Kind(enum.IntEnum):
    """What an entry is. The numbers travel; they never change."""

    RULE = 1
    OVERRIDE = 2
    BLOCK = 3
    KEY = 4
    SWITCH = 5
    TIER = 6

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str) -> Kind:
        """Raises ValueError for a word that is no kind."""
        try:
            return cls[word.upper()]
        except KeyError:
            raise ValueError(f"{word!r} is no kind of entry; expected one of {', '.join(KIND_WORDS)}") from None


KIND_WORDS = tuple(kind.word for kind in Kind)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of the configuration. `body` is its JSON text; None says that it is gone."""

    kind: Kind
    id: str
    body: str | None


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the log. A ledger that was restored or replaced begins a new epoch, so the newest is the greatest."""

    epoch: int
    version: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.version}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises ValueError for what is no position."""
        found = _POSITION.match(text)
        if found is None:
            raise ValueError(f"{text[:60]!r} is no position; expected EPOCH.VERSION, such as 1763284800000000.12")
        return cls(int(found[1]), int(found[2]))


START = Position(0, 0)
