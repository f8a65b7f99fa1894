"""The `headgate` command, and a control plane for it to ask."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from headgate.cli import app
from tests.cli.control_plane import ControlPlane, control_plane

# Made once: building sixty commands anew for every run is most of what a run would take.
COMMAND = typer.main.get_command(app)
PATIENCE_S = 60.0
STEP_S = 0.05


@dataclass(frozen=True)
class Headgate:
    """The command as a person uses it: in a folder, with a token in the environment."""

    plane: ControlPlane

    def run(self, *words: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, list(words), env=self.plane.environment, input=stdin)
        assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def plane_calls(self, path: str) -> list[dict[str, Any]]:
        """The calls of a path. They are written a moment after they were answered."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [call for call in self.json("calls") if call["path"] == path]
            if found or time.monotonic() > deadline:
                return found
            time.sleep(STEP_S)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(typer.testing, "_get_command", lambda _: COMMAND)
    for name in ("HEADGATE_CONTROL_URL", "HEADGATE_TOKEN", "HEADGATE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def plane(sqlite_url: str) -> Iterator[ControlPlane]:
    with control_plane(sqlite_url) as running:
        yield running


@pytest.fixture
def headgate(plane: ControlPlane) -> Headgate:
    return Headgate(plane)
