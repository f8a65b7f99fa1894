"""Rows for the page, gathered over a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.measure import Row

OUT = Path(__file__).with_name("out")
ROWS = OUT / "rows.json"
_rows: list[Row] = []

Recorder = Callable[[Row], None]


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Recorder:
    """Adds a row to the page of this run."""
    theme = request.path.stem.removeprefix("test_")

    def add(row: Row) -> None:
        _rows.append(Row(**(row.as_json() | {"theme": theme})))

    return add


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _rows:
        OUT.mkdir(exist_ok=True)
        said = {"failed": session.testsfailed, "rows": [row.as_json() for row in _rows]}
        ROWS.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n")
