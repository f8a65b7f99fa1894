"""`headgate node` as a process, with every door an example may knock at."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 60.0


class Node(Closing):
    """Keeps its addresses over a restart; its counters are new then."""

    def __init__(self, folder: Path, rules: Path, flags: Sequence[str] = ()) -> None:
        folder.mkdir()
        self._folder = folder
        self.http = f"{HOST}:{free_port()}"
        self.grpc = f"{HOST}:{free_port()}"
        self.uds = folder / "node.sock"
        self._ready = folder / "ready.json"
        doors = ["--http", self.http, "--grpc", self.grpc, "--uds", str(self.uds), "--admin", f"{HOST}:0"]
        given = ["--rules", str(rules), "--ready-file", str(self._ready), "--threads", "1", *flags]
        self._command = [sys.executable, "-m", "headgate", "node", *doors, *given]
        self._process = self._started()

    @property
    def admin(self) -> str:
        address: str = json.loads(self._ready.read_text())["admin"]
        return address

    def hang(self) -> None:
        """The kernel goes on accepting connections and bytes, and nothing answers."""
        self._process.hang()

    def go_on(self) -> None:
        self._process.send(signal.SIGCONT)

    def kill9(self) -> None:
        self._process.kill()

    def restart(self) -> None:
        self.kill9()
        self._process = self._started()

    def close(self) -> None:
        self._process.kill()

    def log_tail(self) -> str:
        return self._process.log_tail()

    def _started(self) -> Process:
        self._ready.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        process = Process(self._command, self._folder, environment)
        wait_for("a ready node", lambda: self._is_ready(process), START_TIMEOUT_S, process.log_tail)
        return process

    def _is_ready(self, process: Process) -> bool:
        assert process.exit_code is None, process.log_tail()
        return self._ready.exists()
