"""A proxy in a process of its own: for benchmarks, where a thread would share Python's lock with what is measured."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

START_TIMEOUT_S = 20
PROJECT = Path(__file__).parents[2]


class ProxyProcess(Closing):
    def __init__(self, target_port: int, *, delay_s: float) -> None:
        self.port = free_port()
        folder = Path(tempfile.mkdtemp(prefix="hg-proxy-"))
        command = [sys.executable, "-m", "tests.servers.proxy", "--target", f"{HOST}:{target_port}"]
        command += ["--port", str(self.port), "--delay-ms", str(delay_s * 1_000)]
        self._process = Process(command, folder, {**os.environ, "PYTHONPATH": str(PROJECT)})
        try:
            wait_for(f"a proxy on {self.port}", self._accepts, START_TIMEOUT_S, self._process.log_tail)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    def close(self) -> None:
        self._process.clear_away()

    def _accepts(self) -> bool:
        with socket.create_connection((HOST, self.port), timeout=1):
            return True
