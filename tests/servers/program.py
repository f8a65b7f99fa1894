"""`headgate …` as processes of their own, as somebody who runs them has them: on free ports, to be killed and started
again."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_S = 60.0
SOON_S = 60.0
PATIENCE_S = 30.0
FEED_KEY = b"5d" * 32
_TOKEN = re.compile(r"HEADGATE_TOKEN=(\S+)")
# Where each verb answers, and what that address is called once it does.
_DOORS = {
    "control": ("control", ["--control"]),
    "node": ("http", ["--grpc", "", "--listen"]),
    "serve": ("http", ["--listen"]),
}


class Program(Closing):
    """`headgate VERB FLAGS` in a folder of its own, from its readiness on; what it says goes to one file there. `token`
    is one that its database knows already."""

    def __init__(self, folder: Path, verb: str, *flags: str, token: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        if token is not None:
            self.token = token
        self._door, where = _DOORS[verb]
        words = [verb, *where, f"{HOST}:{self.port}", *flags, "--ready-file", "ready.json"]
        self._command = [sys.executable, "-m", "headgate", *words]
        ours = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
        self._environment = {**ours, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)}
        self.start()

    def start(self) -> None:
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self.process = Process(self._command, self.folder, self._environment)
        try:
            wait_for("a ready program", lambda: self._is_ready(ready), START_S, self.process.log_tail)
        except BaseException:
            self.close()
            raise
        self.ready: dict[str, str] = json.loads(ready.read_text())

    @property
    def url(self) -> str:
        return f"http://{self.ready[self._door]}"

    @property
    def is_running(self) -> bool:
        return self.process.exit_code is None

    @cached_property
    def token(self) -> str:
        """The first token, as it was printed."""
        return wait_for("the first token", lambda: _TOKEN.search(self.log()), SOON_S, self.log)[1]

    @property
    def environment(self) -> dict[str, str]:
        """For those who ask its control plane."""
        return {"HEADGATE_CONTROL_URL": self.url, "HEADGATE_TOKEN": self.token}

    def log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def kill9(self) -> None:
        self.process.kill()

    def stop(self) -> int:
        """Politely; gives the exit code."""
        self.process.send(signal.SIGTERM)
        wait_for("its end", lambda: not self.is_running, SOON_S, self.process.log_tail)
        code = self.process.exit_code
        assert code is not None
        return code

    def close(self) -> None:
        self.process.kill()

    def admin(self) -> httpx.Client:
        """A client of its admin API."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=PATIENCE_S, trust_env=False)

    def _is_ready(self, ready: Path) -> bool:
        assert self.is_running, self.process.log_tail()
        return ready.exists()


class Serve(Program):
    """Node and control plane in one, whose database is in the folder."""

    def __init__(self, folder: Path, *flags: str, token: str | None = None) -> None:
        super().__init__(folder, "serve", *flags, token=token)


class Control(Program):
    def __init__(self, folder: Path, database: str, *flags: str, token: str | None = None) -> None:
        super().__init__(folder, "control", "--database", database, *_feed_key(folder), *flags, token=token)

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        with self.admin() as admin:
            return admin.request(method, path, json=body)

    def ask(self, method: str, path: str, **body: Any) -> Any:
        answer = self.call(method, path, body or None)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def answers(self, method: str, path: str, **body: Any) -> Any:
        """As `ask`, once it can: its database may be away."""
        return wait_for("an answer", lambda: self._answered(method, path, body), SOON_S, lambda: self.log()[-5_000:])

    def put_rule(self, name: str, limit: str) -> None:
        self.ask("PUT", f"/rules/{name}", name=name, match={"endpoint": f"/{name}"}, by="user", limit=limit)

    def _answered(self, method: str, path: str, body: dict[str, Any]) -> Any:
        try:
            answer = self.call(method, path, body or None)
        except httpx.TransportError:
            return None
        return answer.json() if answer.is_success else None


class Node(Program):
    """Follows a control plane."""

    def __init__(self, folder: Path, rules: str, *flags: str) -> None:
        super().__init__(folder, "node", "--rules", rules, *_feed_key(folder), *flags)

    def check(self, **facts: Any) -> dict[str, Any]:
        answer = httpx.post(f"{self.url}/v1/check", json=facts, timeout=PATIENCE_S, trust_env=False)
        said: dict[str, Any] = answer.json()
        return said

    def limit_of(self, name: str) -> int | None:
        """What the rule of this name allows here; None when there is none."""
        said = self.check(user="42", path=f"/{name}", method="GET", cost=0)
        return said["limit"] if said["rule"] == name else None

    def comes_to(self, **limits: int | None) -> None:
        """Waits until every rule named allows so much, or is not there."""

        def have() -> dict[str, int | None]:
            return {name: self.limit_of(name) for name in limits}

        wait_for(f"the rules {limits}", lambda: have() == limits, SOON_S, lambda: f"{have()}\n{self.log()[-5_000:]}")


def _feed_key(folder: Path) -> tuple[str, str]:
    """The same for all, so that nodes believe their control planes; a test's own key stays."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "feed.key").exists():
        (folder / "feed.key").write_bytes(FEED_KEY + b"\n")
    return "--feed-key-file", "feed.key"
