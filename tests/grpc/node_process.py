"""`headgate node` as a real process, and what can be seen of it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.grpc.client import Client
from tests.integration.http_node import PATIENCE_S, eventually
from tests.servers.closing import Closing

RULES: list[dict[str, Any]] = [{"name": "per-user", "by": "user", "limit": "1000000/hour"}]


class NodeProcess(Closing):
    """Started at once, waited for when first asked for an address. Every door on a free port or in `folder`."""

    def __init__(self, folder: Path, *flags: str, rules: list[dict[str, Any]] | None = None) -> None:
        self._rules_path, self._ready_path, self._log_path = (
            folder / name for name in ("rules.json", "ready.json", "log")
        )
        self.write_rules(RULES if rules is None else rules)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        command = [sys.executable, "-m", "headgate", "node", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        command += ["--uds", str(folder / "node.sock"), "--admin", "127.0.0.1:0", "--rules", str(self._rules_path)]
        command += ["--log-format", "json", "--ready-file", str(self._ready_path), *flags]
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
        self._clients: list[Client] = []

    def write_rules(self, rules: list[dict[str, Any]]) -> None:
        """A node that runs takes them over within a second or so."""
        self._rules_path.write_text(json.dumps({"rules": rules}))

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def address(self, door: str) -> str:
        """Of `http`, `grpc`, `uds` or `admin`."""
        eventually(lambda: self._ready_path.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()
        return str(json.loads(self._ready_path.read_text())[door])

    def port(self, door: str = "grpc") -> int:
        return int(self.address(door).rpartition(":")[2])

    def client(self, door: str = "grpc") -> Client:
        self._clients.append(Client(self.address(door)))
        return self._clients[-1]

    def admin(self, path: str, scheme: str = "http") -> httpx.Response:
        url = f"{scheme}://{self.address('admin')}{path}"
        return httpx.get(url, timeout=PATIENCE_S, trust_env=False, verify=False)

    def log(self) -> str:
        return self._log_path.read_text()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def memory_mb(self) -> float:
        """Resident now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)
