"""`headgate …` as a process of its own, on a free port, that can be killed and started again."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import httpx

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_S = 60.0
STOP_S = 60.0


class Program(Closing):
    """`verb` is serve, node or control; its folder is where it runs. What it says goes to one file there."""

    def __init__(self, folder: Path, verb: str, *flags: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        where = {"control": ["--control"], "node": ["--grpc", "", "--listen"], "serve": ["--listen"]}[verb]
        self._command = [sys.executable, "-m", "headgate", verb, *where, f"{HOST}:{self.port}", *flags]
        ours = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
        self._environment = {**ours, "PYTHONPATH": paths}
        self.start()

    def start(self) -> None:
        self.process = Process(self._command, self.folder, self._environment)
        wait_for(self.url, self._is_up, START_S, self.process.log_tail)

    def kill9(self) -> None:
        self.process.kill()

    def stop(self) -> int:
        """Politely; gives the exit code."""
        os.kill(self.process.pid, signal.SIGTERM)
        wait_for("its end", lambda: self.process.exit_code is not None, STOP_S, self.process.log_tail)
        code = self.process.exit_code
        assert code is not None
        return code

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def token(self) -> str:
        """The first token, as it was printed."""
        found = wait_for("the first token", lambda: re.search(r"HEADGATE_TOKEN=(\S+)", self.log()), START_S, self.log)
        return found[1]

    def admin(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token or self.token()}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=30)

    def close(self) -> None:
        self.process.kill()

    def _is_up(self) -> bool:
        assert self.process.exit_code is None, self.process.log_tail()
        try:
            # With an admin address health is told elsewhere; an answer is an answer.
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code < 500
        except httpx.HTTPError:
            return False
