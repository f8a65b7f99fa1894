"""Results as a table for people, as JSON for machines, and as a page of the documentation."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figure import Figure, figure_from_json
from bench.processes import OUT, REPOSITORY

RESULTS = OUT / "results.json"
PAGE = REPOSITORY / "docs" / "benchmarks.md"
NOTES = REPOSITORY / "bench" / "notes.md"
TEMPLATE = REPOSITORY / "bench" / "page.md"
NAME_WIDTH = 70
# The section that another program writes (bench/side_by_side): it stays as it is.
PEERS = "Peers side by side"
NO_PEERS = f"## {PEERS}\nNot measured yet: run `make bench-peers`."


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _value(figure: Figure) -> str:
    return f"{_number(figure.measured)} {figure.unit}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return "—"
    return f"{'≥' if figure.at_least else '≤'} {figure.target:g} {figure.unit}"


def _met(figure: Figure) -> str:
    return {True: "yes", False: "NO", None: "—"}[figure.met]


def _raw(figure: Figure) -> str:
    return ", ".join(
        f"{name} {value if isinstance(value, str) else _number(value)}" for name, value in figure.raw.items()
    )


def row(figure: Figure) -> str:
    """The figure on one line, what it was made from on the next."""
    line = f"{figure.name:<{NAME_WIDTH}} {_value(figure):>11} {_target(figure):>10}  {_met(figure)}"
    return f"{line}\n    {_raw(figure)}" if figure.raw else line


def heading() -> str:
    return f"{'figure':<{NAME_WIDTH}} {'measured':>11} {'target':>10}  met"


def write_results(
    figures: Sequence[Figure],
    left_out: Mapping[str, str],
    machine: Mapping[str, str],
    seconds: float,
    quick: bool,
    partial: bool,
) -> Path:
    OUT.mkdir(exist_ok=True)
    results = {
        "machine": dict(machine),
        "quick": quick,
        "partial": partial,
        "seconds": round(seconds, 1),
        "left_out": dict(left_out),
        "figures": [figure.as_json() for figure in figures],
    }
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    return RESULTS


def _page_table(figures: Sequence[Figure]) -> str:
    lines = ["| figure | measured | target | met |", "|---|---:|---:|---|"]
    lines += [f"| {f.name} | {_value(f)} | {_target(f)} | {_met(f)} |" for f in figures]
    return "\n".join(lines)


def _page_raw(figures: Sequence[Figure]) -> str:
    return "\n".join(f"- {f.name}: {_raw(f)}" for f in figures if f.raw)


def _page_summary(figures: Sequence[Figure], left_out: Mapping[str, str]) -> str:
    judged = [f for f in figures if f.met is not None]
    missed = [f.name for f in judged if not f.met]
    summary = f"{len(judged) - len(missed)} of {len(judged)} targets met."
    summary += f" Missed: {'; '.join(missed)}." if missed else ""
    return summary + "".join(f"\n\nNot measured: `{name}`, because {reason}" for name, reason in left_out.items())


def write_page() -> Path:
    """The documentation page, from the last results, unless they are of a quick or a partial run."""
    if not RESULTS.exists():
        raise ValueError("there are no results yet: run `make bench` first")
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    if results["quick"] or results["partial"]:
        raise ValueError("the last run was quick or partial: run `make bench` in full first")
    figures = [figure_from_json(fields) for fields in results["figures"]]
    machine = "\n".join(f"- {name}: {value}" for name, value in results["machine"].items())
    notes = f"\n## Notes on these figures\n{NOTES.read_text().strip()}\n" if NOTES.exists() else ""
    page = TEMPLATE.read_text()
    for hole, text in (
        ("{{summary}}", _page_summary(figures, results.get("left_out", {}))),
        ("{{table}}", _page_table(figures)),
        ("{{machine}}", machine),
        ("{{seconds}}", f"{results['seconds']:.0f}"),
        ("{{raw}}", _page_raw(figures)),
        ("{{notes}}", notes),
        ("{{peers}}", section_of(PAGE.read_text() if PAGE.exists() else "", PEERS) or NO_PEERS),
    ):
        page = page.replace(hole, text)
    PAGE.write_text(page.rstrip() + "\n")
    return PAGE


def section_of(page: str, title: str) -> str:
    """A section with its heading, up to the next one of its kind; empty where there is none."""
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[0].strip() if found else ""


def replace_section(title: str, section: str) -> None:
    """In the page as it is."""
    page = PAGE.read_text() if PAGE.exists() else ""
    old = section_of(page, title)
    if not old:
        raise ValueError(f"{PAGE} has no section {title!r} to replace: write the page with `make bench` first")
    PAGE.write_text(page.replace(old, section.strip()))
