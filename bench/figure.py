"""What a benchmark hands back: one measured figure beside its target."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Unavailable(RuntimeError):
    """A peer or tool cannot be had here: the benchmark is left out, and the message says why."""


Raw = Mapping[str, float | str]


@dataclass(frozen=True)
class Effort:
    """How much to measure. A quick run proves that the benchmarks work; its numbers mean nothing."""

    quick: bool = False

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @property
    def rounds(self) -> int:
        return self.pick(7, 2)


@dataclass(frozen=True)
class Figure:
    """`measured` is what the target is about; `raw` holds what it was made from, units last in the names."""

    bench: str
    name: str
    measured: float
    unit: str
    target: float | None = None
    at_least: bool = False
    raw: Raw = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """None when the figure is for information only."""
        if self.target is None:
            return None
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def as_json(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "name": self.name,
            "measured": self.measured,
            "unit": self.unit,
            "target": self.target,
            "at_least": self.at_least,
            "met": self.met,
            "raw": dict(self.raw),
        }


def figure_from_json(fields: Mapping[str, Any]) -> Figure:
    return Figure(**{name: value for name, value in fields.items() if name != "met"})
