"""`headgate backup` and `headgate restore`, with the page's own commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backup.page import PAGE, Places, commands
from tests.servers.postgres import Postgres
from tests.servers.program import Control, Node

WRITTEN_URL = "postgresql://headgate@db.internal/headgate"


def places(folder: Path, database: str, control: Control) -> Places:
    """Of a shell in `folder` whose `headgate` is this one."""
    program = folder / "bin" / "headgate"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headgate "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {**control.environment, "PATH": f"{program.parent}:/usr/bin:/bin"}
    return Places({WRITTEN_URL: database}, environment, folder=folder)


@pytest.fixture
def control(sqlite_url: str, tmp_path: Path) -> Iterator[Control]:
    with Control(tmp_path / "control", sqlite_url) as control:
        control.put_rule("login", "5/minute")
        yield control


def test_the_file_goes_into_an_empty_database_and_then_over_a_changed_one(
    control: Control, postgres: Postgres, tmp_path: Path
) -> None:
    backup, restore, replace = commands("One file")
    url = postgres.empty_database()
    shell = places(tmp_path, url, control)
    shell.run(backup)
    with Control(tmp_path / "restored", url) as restored, Node(tmp_path / "node", restored.url) as node:
        assert "restored" in shell.run(restore)
        # The token of the old control plane is good here too.
        restored.token = control.token
        assert restored.answers("GET", "/rules/login")["limit"] == "5/minute"
        node.comes_to(login=5)
        restored.ask("DELETE", "/rules/login")
        node.comes_to(login=None)
        head = restored.ask("GET", "/fleet")["head"]
        shell.run(replace)
        assert restored.ask("GET", "/rules/login")["limit"] == "5/minute"
        assert _position(restored.ask("GET", "/fleet")["head"]) > _position(head)
        assert restored.ask("GET", "/versions")["items"][0]["verb"] == "restore"
        node.comes_to(login=5)


def test_the_drill_shows_what_was_kept(control: Control, tmp_path: Path) -> None:
    backup, *_ = commands("One file")
    restore, run = commands("Try it")
    shell = places(tmp_path, "", control)
    shell.run(backup)
    shell.run(restore)
    database = re.findall(r"--database (\S+)", run)[0]
    with Control(tmp_path, database, token=control.token) as drill:
        prose = "\n".join(PAGE.section("Try it").prose)
        (look,) = re.findall(r"`(headgate versions list) --control http://127.0.0.1:8099`", prose)
        shown = Places({}, {**shell.environment, **drill.environment}, folder=tmp_path).run(f"{look} --json")
        assert '"verb": "replace"' in shown or '"verb": "create"' in shown


def _position(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
