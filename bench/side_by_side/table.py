"""What was found, as cells and rows and as a section of docs/benchmarks.md. A cell was measured, or says why not."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.report import PEERS
from bench.side_by_side.behaviour import GREEDY_REQUESTS, HANG_REQUESTS
from bench.side_by_side.work import OWN, SHARED, TIGHT_COUNT

PLOT = "plots/peers.svg"
TEMPLATE = Path(__file__).with_name("section.md")
COLUMNS = {
    "requests_per_s": "requests/s",
    "cpu_us": "CPU µs",
    "store_cpu_us": "store's CPU µs",
    "p99_us": "p99 µs",
    "store_calls": "store calls",
    "burned": "a refused request burned",
    "worst_window": f"most in any second, limit {TIGHT_COUNT}",
    "hanging": "answers while the store hangs",
}
NUMBERS = ("requests_per_s", "cpu_us", "store_cpu_us", "p99_us", "store_calls", "worst_window")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Cell:
    """A number, or words; without either, `why`."""

    number: float | None = None
    words: str = ""
    why: str = ""

    def text(self) -> str:
        if self.words or self.number is None:
            return self.words
        return f"{self.number:,.0f}" if self.number >= 1000 or self.number == int(self.number) else f"{self.number:.3g}"


@dataclass(frozen=True)
class Row:
    name: str
    is_ours: bool
    cells: dict[str, Cell]


@dataclass(frozen=True)
class Part:
    """One group's rows."""

    title: str
    about: str
    rows: list[Row]
    left_out: dict[str, str] = field(default_factory=dict)


def as_json(parts: Sequence[Part]) -> list[dict[str, Any]]:
    return [asdict(part) for part in parts]


def from_json(parts: Sequence[dict[str, Any]]) -> list[Part]:
    def row(fields: dict[str, Any]) -> Row:
        return Row(fields["name"], fields["is_ours"], {name: Cell(**cell) for name, cell in fields["cells"].items()})

    return [Part(**{**part, "rows": [row(fields) for fields in part["rows"]]}) for part in parts]


def _table(part: Part, reasons: list[str]) -> str:
    def shown(cell: Cell) -> str:
        if cell.text():
            return cell.text()
        if cell.why not in reasons:
            reasons.append(cell.why)
        return f"—{str(reasons.index(cell.why) + 1).translate(_RAISED)}"

    marks = ["---:" if name in NUMBERS else "---" for name in COLUMNS]
    lines = [f"| | {' | '.join(COLUMNS.values())} |", f"|---|{'|'.join(marks)}|"]
    lines += [f"| {row.name} | {' | '.join(shown(row.cells[name]) for name in COLUMNS)} |" for row in part.rows]
    return "\n".join(lines)


def tables(parts: Sequence[Part]) -> str:
    """Also what the plot is known by: it is drawn from the same cells."""
    reasons: list[str] = []
    blocks = []
    for part in parts:
        left_out = [f"Left out: {name}, because {reason}" for name, reason in part.left_out.items()]
        blocks.append("\n\n".join([f"### {part.title}", part.about, _table(part, reasons), *left_out]))
    notes = "  \n".join(f"{str(number).translate(_RAISED)} {why}" for number, why in enumerate(reasons, 1))
    return "\n\n".join([*blocks, notes] if notes else blocks)


def digest(section: str) -> str:
    """Of the tables in a section, by which its plot can be told."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def section(parts: Sequence[Part], seconds: float, machine: str) -> str:
    filled = TEMPLATE.read_text()
    for hole, text in (
        ("title", PEERS),
        ("seconds", f"{seconds:.0f}"),
        ("plot", PLOT),
        ("tables", tables(parts)),
        ("own", str(OWN)),
        ("shared", str(SHARED)),
        ("greedy", str(GREEDY_REQUESTS)),
        ("tight", str(TIGHT_COUNT)),
        ("hang", str(HANG_REQUESTS)),
        ("machine", machine),
    ):
        filled = filled.replace(f"{{{{{hole}}}}}", text)
    return filled
