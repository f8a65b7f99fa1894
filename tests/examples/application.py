"""An example's own application under a real server, started with the command of its README."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path

import httpx
from typer.testing import CliRunner

from headgate.cli import app
from tests.docs.markdown import Page
from tests.proxies.example import EXAMPLES
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 60.0
PATIENCE_S = 30.0

# The headers that users show, by name.
Keys = dict[str, dict[str, str]]

_PORT = re.compile(r"\b8000\b")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")


class Example:
    """A copy of an example's folder, to be used as its README says."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / name
        self.page = Page(EXAMPLES / name / "README.md")
        shutil.copytree(EXAMPLES / name, self.folder, ignore=shutil.ignore_patterns("__pycache__"))

    def make_keys(self, group: int) -> Keys:
        """With the commands of the README, for users and organisations of a test's own: `ann` of group 3 is `ann-3`."""
        shown: Keys = {}
        for line in self.page.commands("headgate keys create"):
            words = shlex.split(line)[1:]
            user = words[words.index("--user") + 1]
            for flag in {"--user", "--org"} & set(words):
                words[words.index(flag) + 1] += f"-{group}"
            with chdir(self.folder):
                made = CliRunner().invoke(app, words)
            assert made.exit_code == 0, made.output
            shown[user] = {"X-API-Key": made.stdout.strip()}
        return shown

    def do(self, program: str) -> None:
        """Every command of the README that begins with `program`, in order."""
        for line in self.page.commands(program):
            done = subprocess.run(
                ["sh", "-c", line],
                cwd=self.folder,
                env=environment({}),
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"

    @contextmanager
    def running(self, program: str, look: str, store: str | None = None) -> Iterator[httpx.Client]:
        """What the README starts with `program`, on a port of its own; with a store, what it starts with `STORE=`.
        Ready when `look` is answered."""
        port = free_port()
        line = _PORT.sub(str(port), self.page.commands(program)[0 if store is None else 1])
        words = shlex.split(line)
        variables = dict(word.split("=", 1) for word in words if _ASSIGNMENT.match(word))
        if store is not None:
            assert "STORE" in variables, f"no store: {line}"
            variables["STORE"] = store
        command = [sys.executable, "-m", *words[len(variables) :]]
        process = Process(command, self.folder, environment(variables))
        base_url = f"http://{HOST}:{port}"
        try:
            with httpx.Client(base_url=base_url, timeout=PATIENCE_S, trust_env=False) as client:
                wait_for(line, lambda: _is_up(process, client, look), START_TIMEOUT_S, process.log_tail)
                yield client
        finally:
            process.kill()


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    # What a page calls `python` is the one that runs the tests.
    found_first = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    # Gunicorn would leave a socket in the home of whoever runs the tests.
    return {**usual, "PATH": found_first, "GUNICORN_CMD_ARGS": "--no-control-socket", **variables}


def _is_up(process: Process, client: httpx.Client, look: str) -> bool:
    assert process.exit_code is None, process.log_tail()
    try:
        return client.get(look).status_code < 500
    except httpx.TransportError:
        return False
