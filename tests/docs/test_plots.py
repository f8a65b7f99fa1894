"""The figures of docs/algorithms.md show what the engine does now, that of docs/benchmarks.md what its tables say."""

from __future__ import annotations

import json

import pytest

from bench import report
from bench.side_by_side import plot, table
from tests.docs.pages import DOCS
from tools import plots

PAGE = DOCS["algorithms"]


@pytest.fixture(scope="module")
def data() -> plots.Data:
    return plots.make_data()


def test_the_engine_admits_what_the_figures_were_drawn_from(data: plots.Data) -> None:
    assert json.loads(plots.DATA_FILE.read_text(encoding="utf-8")) == data, "run: python tools/plots.py"


def test_every_figure_was_drawn_from_that_data_and_is_shown(data: plots.Data) -> None:
    figures = sorted(set(plots.FOLDER.glob("*.svg")) - {plot.FILE})
    assert [figure.stem for figure in figures] == sorted([*(arrivals.name for arrivals in plots.ARRIVALS), "worst"])
    for figure in figures:
        assert plots.digest_of(data) in figure.read_text(encoding="utf-8"), f"{figure.name}: run python tools/plots.py"
        assert f"plots/{figure.name}" in PAGE.links()


def test_the_table_under_the_figures_says_what_they_show(data: plots.Data) -> None:
    rows = {row[0].replace("`", ""): row[1:] for row in PAGE.section("What each admits").rows()}
    assert rows == {label: [str(max(worst)), f"{data['even'][label][0]:,}"] for label, worst in data["worst"].items()}


@pytest.mark.parametrize("label", ["sliding_window", "sliding_log"])
def test_algorithms_that_promise_it_never_pass_the_limit_in_any_window(label: str, data: plots.Data) -> None:
    assert max(data["worst"][label]) == plots.COUNT


def test_the_figure_of_the_peers_was_drawn_from_the_tables_below_it_and_is_shown() -> None:
    section = report.section_of(report.PAGE.read_text(encoding="utf-8"), report.PEERS)
    assert f"data {table.digest(section)}" in plot.FILE.read_text(encoding="utf-8"), "run: make bench-peers"
    assert table.PLOT in DOCS["benchmarks"].links()
