"""`headgate node` started with an example's own arguments, everything but files and addresses as written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.proxies.tokens import SECRET
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 60.0
PATIENCE_S = 30.0
DOORS = ("--http", "--grpc", "--admin")


@dataclass(frozen=True)
class Running:
    ready: dict[str, str]

    def status(self, door: str, path: str) -> int:
        return httpx.get(f"http://{self.ready[door]}{path}", timeout=PATIENCE_S, trust_env=False).status_code


def pairs(arguments: Iterable[str]) -> dict[str, str]:
    """`--flag=value` and `--flag value` alike."""
    words = iter(arguments)
    found: dict[str, str] = {}
    for word in words:
        flag, equals, value = word.partition("=")
        found[flag] = value if equals else next(words)
    return found


@contextmanager
def running(arguments: Iterable[str], rules: str, folder: Path) -> Iterator[Running]:
    secret = folder / "jwt.secret"
    secret.write_bytes(SECRET)
    (folder / "rules.yaml").write_text(rules)
    instead = {
        "--rules": folder / "rules.yaml",
        "--jwt-secret-file": secret,
        "--uds": folder / "node.sock",
    }
    flags = [part for flag, value in pairs(arguments).items() for part in (flag, _local(flag, value, instead))]
    ready = folder / "ready.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    command: list[str | Path] = [sys.executable, "-m", "headgate", "node", *flags, "--ready-file", ready]
    process = Process(command, folder, environment)
    try:
        wait_for("a ready node", lambda: _is_ready(process, ready), START_TIMEOUT_S, process.log_tail)
        yield Running(json.loads(ready.read_text()))
    finally:
        process.kill()


def _local(flag: str, value: str, instead: dict[str, Path]) -> str:
    if flag in DOORS and value:
        return "127.0.0.1:0"
    return str(instead.get(flag, value))


def _is_ready(process: Process, ready: Path) -> bool:
    assert process.exit_code is None, process.log_tail()
    return ready.exists()
