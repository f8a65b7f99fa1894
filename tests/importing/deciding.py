"""Files of another limiter, imported and asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate import Limiter
from headgate.importing.imported import Imported
from headgate.testing import FakeClock

# At the beginning of a day, and so of every shorter window.
MIDNIGHT_S = 20_370 * 86_400

Reader = Callable[[Sequence[Path]], Imported]


@dataclass(frozen=True)
class Moved:
    """What came of an import, and a limiter that goes by it."""

    imported: Imported
    path: Path
    clock: FakeClock
    limiter: Limiter

    def admitted(self, tries: int, **facts: Any) -> int:
        """How many of so many requests are let through, all at once."""
        return sum(self.limiter.check(**facts).allowed for _ in range(tries))

    def rule(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(rule for rule in self.imported.document["rules"] if rule["name"] == name)
        return found

    @property
    def names(self) -> list[str]:
        return [rule["name"] for rule in self.imported.document["rules"]]

    def said(self, level: str) -> list[tuple[str, str]]:
        """The notes of a level: where, without the folder, and what."""
        folder = f"{self.path.parent}/"
        notes = [note for note in self.imported.notes if note.level == level]
        return [(note.where.removeprefix(folder), note.what) for note in notes]


def moved(read: Reader, folder: Path, text: str) -> Moved:
    path = folder / "theirs.yaml"
    path.write_text(text, encoding="utf-8")
    imported = read([path])
    clock = FakeClock(MIDNIGHT_S)
    return Moved(imported, path, clock, Limiter(imported.document, clock=clock))
