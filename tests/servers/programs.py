"""A control plane and nodes as processes of their own, as somebody who runs them has them."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.servers.closing import Closing
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 60.0
SOON_S = 60.0
PATIENCE_S = 30.0
FEED_KEY = b"5d" * 32
_TOKEN = re.compile(r"HEADGATE_TOKEN=(\S+)")


class Program(Closing):
    """`headgate WORDS`, from its readiness on; what it leaves on disk is in its folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "feed.key").exists():
            (folder / "feed.key").write_bytes(FEED_KEY + b"\n")
        ready = folder / "ready.json"
        ready.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        command = [
            sys.executable,
            "-m",
            "headgate",
            *words,
            "--feed-key-file",
            "feed.key",
            "--ready-file",
            "ready.json",
        ]
        self._process = Process(command, folder, environment)
        self._log = folder / "server.log"
        try:
            wait_for("a ready program", lambda: self._is_ready(ready), START_TIMEOUT_S, self._process.log_tail)
        except BaseException:
            self.close()
            raise
        self.ready: dict[str, str] = json.loads(ready.read_text())

    @property
    def is_running(self) -> bool:
        return self._process.exit_code is None

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        self._process.kill()

    def _is_ready(self, ready: Path) -> bool:
        assert self.is_running, self._process.log_tail()
        return ready.exists()


class Printing(Program):
    """On a database of its own it finds its token in what it prints; else it is given one."""

    door: str

    def __init__(self, folder: Path, *words: str, token: str | None = None) -> None:
        super().__init__(folder, *words)
        try:
            self.token = token or wait_for("the first token", lambda: _TOKEN.search(self.log), SOON_S)[1]
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"http://{self.ready[self.door]}"

    @property
    def environment(self) -> dict[str, str]:
        return {"HEADGATE_CONTROL_URL": self.url, "HEADGATE_TOKEN": self.token}


class Serve(Printing):
    """Node and control plane in one, whose database is in the folder."""

    door = "http"

    def __init__(self, folder: Path, *words: str, token: str | None = None) -> None:
        super().__init__(folder, "serve", "--listen", "127.0.0.1:0", *words, token=token)


class Control(Printing):
    door = "control"

    def __init__(self, folder: Path, database: str, *words: str, token: str | None = None) -> None:
        super().__init__(folder, "control", "--database", database, "--control", "127.0.0.1:0", *words, token=token)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self._call(method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def answers(self, method: str, path: str, **body: Any) -> Any:
        """As `ask`, once it can: its database may be away."""
        return wait_for("an answer", lambda: self._answered(method, path, body), SOON_S, lambda: self.log[-5_000:])

    def put_rule(self, name: str, limit: str) -> None:
        self.ask("PUT", f"/rules/{name}", name=name, match={"endpoint": f"/{name}"}, by="user", limit=limit)

    def _answered(self, method: str, path: str, body: dict[str, Any]) -> Any:
        try:
            answer = self._call(method, path, body)
        except httpx.TransportError:
            return None
        return answer.json() if answer.is_success else None

    def _call(self, method: str, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.request(
            method,
            f"{self.url}/api/v1{path}",
            json=body or None,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=PATIENCE_S,
            trust_env=False,
        )


class Node(Program):
    def __init__(self, folder: Path, rules: str) -> None:
        super().__init__(folder, "node", "--rules", rules, "--http", "127.0.0.1:0", "--grpc", "")

    def limit_of(self, name: str) -> int | None:
        """What the rule of this name allows here; None when there is none."""
        facts = {"user": "42", "path": f"/{name}", "method": "GET", "cost": 0}
        answer = httpx.post(f"http://{self.ready['http']}/v1/check", json=facts, timeout=PATIENCE_S, trust_env=False)
        said = answer.json()
        return said["limit"] if said["rule"] == name else None

    def comes_to(self, **limits: int | None) -> None:
        """Waits until every rule named allows so much, or is not there."""

        def have() -> dict[str, int | None]:
            return {name: self.limit_of(name) for name in limits}

        wait_for(f"the rules {limits}", lambda: have() == limits, SOON_S, lambda: f"{have()}\n{self.log[-5_000:]}")
