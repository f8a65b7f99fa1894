"""Draws the comparison: how much each carries, and how much it lets through at worst."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import PAGE
from bench.side_by_side.table import PLOT, Cell, Part, Row
from bench.side_by_side.work import TIGHT_COUNT
from tools.plots import BAR, INK, LINE, STYLE

FILE = PAGE.parent / PLOT
WIDTH, ROW_HEIGHT, PART_HEIGHT = 10.0, 0.24, 0.95


def _label(row: Row) -> str:
    return re.sub(r"[*`]|(?<=, `)headgate ", "", row.name)


def _colour(row: Row) -> str:
    """Ours, its peers, and what limits nothing."""
    return BAR if row.is_ours else LINE if row.cells["worst_window"].number is not None else INK


def _bars(panel: Any, rows: Sequence[Row], column: str, most: float) -> None:
    """One a row, from the top. What was not measured has none."""
    cells: list[Cell] = [row.cells[column] for row in rows]
    places = range(len(rows), 0, -1)
    drawn = panel.barh(
        places,
        [cell.number or 0 for cell in cells],
        color=[_colour(row) for row in rows],
        height=0.65,
    )
    panel.bar_label(drawn, [cell.text() or "—" for cell in cells], padding=3, color=INK, fontsize=8)
    panel.set_yticks(places, [_label(row) for row in rows], fontsize=8)
    panel.set_xlim(0, 1.3 * most)
    panel.tick_params(length=0)


def _draw(figure: Any, parts: Sequence[Part]) -> None:
    heights = [len(part.rows) + PART_HEIGHT / ROW_HEIGHT for part in parts]
    panels = figure.subplots(len(parts), 2, squeeze=False, gridspec_kw={"height_ratios": heights})
    for part, (rates, windows) in zip(parts, panels, strict=True):
        _bars(rates, part.rows, "requests_per_s", max(row.cells["requests_per_s"].number or 1 for row in part.rows))
        _bars(windows, part.rows, "worst_window", 2 * TIGHT_COUNT)
        rates.set_title(f"{part.title}\nrequests a second", color=INK, fontsize=9, loc="left")
        windows.set_title(f"most in any second, limit {TIGHT_COUNT}", color=INK, fontsize=9, loc="left")
        windows.axvline(TIGHT_COUNT, color=INK, linewidth=0.9, linestyle="--")
        windows.set_yticks([])
        for panel in (rates, windows):
            panel.set_xticks([])
    figure.tight_layout(rect=(0.01, 0, 1, 1))


def write(parts: Sequence[Part], digest: str) -> Path:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    rows = sum(len(part.rows) for part in parts)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, ROW_HEIGHT * rows + PART_HEIGHT * len(parts)))
        _draw(figure, parts)
        metadata = {"Date": None, "Creator": None, "Description": f"data {digest}"}
        FILE.parent.mkdir(exist_ok=True)
        figure.savefig(FILE, metadata=metadata)
    return FILE
