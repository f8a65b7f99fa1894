"""`headgate serve` and the command that asks it, as a newcomer meets them: two processes and one token."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import ROOT

PATIENCE_S = 120.0


class Serving:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self._environ = {**os.environ, "PYTHONPATH": path}
        ready = folder / "ready.json"
        self._log = folder / "serve.log"
        words = ["serve", "--listen", "127.0.0.1:0", "--ready-file", str(ready)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headgate", *words], cwd=folder, env=self._environ, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists() or not ready.read_text():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)
        self.url = f"http://{json.loads(ready.read_text())['http']}"

    @property
    def token(self) -> str:
        found = re.search(r"hga_\w+", self._log.read_text())
        assert found is not None, self._log.read_text()
        return found[0]

    def headgate(self, *words: str, code: int = 0) -> str:
        environ = {**self._environ, "HEADGATE_TOKEN": self.token, "HEADGATE_CONTROL_URL": self.url}
        command = [sys.executable, "-m", "headgate", *words]
        done = subprocess.run(
            command, cwd=self._folder, env=environ, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def check(self, **facts: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/v1/check", json.dumps(facts).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            decided: dict[str, Any] = json.load(answer)
            return decided

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)


@pytest.fixture
def serving(folder: Path) -> Iterator[Serving]:
    running = Serving(folder)
    try:
        yield running
    finally:
        running.stop()


def test_what_was_waited_for_is_enforced(serving: Serving, folder: Path) -> None:
    attacker = {"ip": "203.0.113.9", "path": "/"}
    assert serving.check(**attacker)["allowed"]
    serving.headgate("blocks", "add", "--ip", "203.0.113.0/24", "--for", "1h", "--why", "scraping", "--wait")
    assert serving.check(**attacker)["path"] == "blocked"
    (block,) = json.loads(serving.headgate("blocks", "list", "--json"))
    serving.headgate("blocks", "lift", block["id"], "--wait")
    assert serving.check(**attacker)["allowed"]

    (folder / "rules.yaml").write_text("rules:\n  - {name: once, match: {user: 42}, by: user, limit: 1/day}\n")
    serving.headgate("rules", "apply", "-f", "rules.yaml", "--prune", "--yes", "--wait")
    assert [serving.check(user="42")["allowed"] for _ in range(2)] == [True, False]
    serving.headgate("rules", "shadow", "--all", "--wait")
    assert serving.check(user="42")["allowed"]
    serving.headgate("rules", "enforce", "--all", "--wait")
    assert not serving.check(user="42")["allowed"]
    assert "1 live node, 0 behind" in serving.headgate("fleet")
