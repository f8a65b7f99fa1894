"""The first minutes with `headgate serve`, command by command: README, getting started, the control plane's page."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from headgate.cli import app
from tests.docs.markdown import Page
from tests.docs.pages import DOCS, README, first_rules
from tests.servers.program import PATIENCE_S, Serve

BLOCK_ID = "b7k2m9x4q1wz"


class Shell:
    """A terminal beside a running `headgate serve`, with the token it printed."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve

    def headgate(self, line: str) -> str:
        """An id of the page stands for the block that there is."""
        if BLOCK_ID in line:
            (block,) = json.loads(self.headgate("headgate blocks list --json"))
            line = line.replace(BLOCK_ID, block["id"])
        result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:], env=self.serve.environment)
        assert result.exit_code == 0, f"{line}\n{result.output}"
        return result.stdout

    def status(self, curl: str) -> int:
        found = re.search(r"localhost:8080(\S+) -d '([^']+)'", curl)
        assert found is not None
        answer = httpx.post(f"{self.serve.url}{found[1]}", content=found[2], timeout=PATIENCE_S, trust_env=False)
        return int(answer.json()["status"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules.yaml").write_text(first_rules(), encoding="utf-8")
    return tmp_path


@pytest.fixture
def shell(folder: Path) -> Iterator[Shell]:
    with Serve(folder) as serve:
        yield Shell(serve)


def lines(page: Page, section: str) -> list[str]:
    blocks = [example.text for example in page.examples_in("console") if example.section == section]
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_the_readmes_first_commands_find_the_starter_rules_and_block(shell: Shell) -> None:
    commands = [line for line in lines(README, "Try it: two commands") if line.startswith("headgate ")]
    shown = [shell.headgate(f"{line} --wait" if " add " in line else line) for line in commands]
    assert "free-login" in shown[0]
    assert "203.0.113.0/24" in shown[1]
    assert "Scraping" in shown[2]
    assert shell.status("""localhost:8080/v1/check -d '{"ip": "203.0.113.9"}'""") == 403


def test_the_commands_of_the_control_planes_page_do_too(shell: Shell) -> None:
    start, *commands = lines(DOCS["control-plane"], "headgate serve")
    assert start == "headgate serve"
    assert "free-login" in "".join(shell.headgate(line) for line in commands)


def test_getting_started_blocks_somebody_and_lets_him_back_in(folder: Path) -> None:
    commands = lines(DOCS["getting-started"], "Change it while it runs")
    (curl,) = [line for line in commands if line.startswith("curl")]
    at = commands.index(curl)
    with Serve(folder, "--rules", "rules.yaml") as serve:
        shell = Shell(serve)
        before, after = (
            [line for line in part if line.startswith("headgate ")] for part in (commands[:at], commands[at:])
        )
        # Nothing waits here: whoever types is slower than the change.
        shown = [shell.headgate(f"{line} --wait" if " add " in line else line) for line in before]
        assert "org-ceiling" in shown[0]
        assert shell.status(curl) == 403
        for line in after:
            shell.headgate(f"{line} --wait" if " lift " in line else line)
        assert shell.status(curl) == 200


def test_what_serve_keeps_is_there_after_a_restart_and_prints_no_other_token(folder: Path) -> None:
    with Serve(folder) as serve:
        Shell(serve).headgate("headgate blocks add --user 42 --why kept --wait")
    (folder / "server.log").unlink()
    with Serve(folder, token=serve.token) as again:
        assert "kept" in Shell(again).headgate("headgate blocks list")
        assert "HEADGATE_TOKEN" not in again.log()
        assert Shell(again).status("""localhost:8080/v1/check -d '{"user": "42"}'""") == 403
