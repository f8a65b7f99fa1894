"""A gunicorn of the test's own, and many clients at once."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent
START_TIMEOUT_S = 30
ANSWER_TIMEOUT_S = 30
CLIENTS = 16


class Gunicorn(Closing):
    """Starts at once; use as a context manager or `close()` it."""

    def __init__(self, app: str, *args: str, **environment: str) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="hg-gunicorn-"))
        command = [sys.executable, "-m", "gunicorn", "-b", f"{HOST}:{self.port}", "--no-control-socket", *args, app]
        paths = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = Process(command, self.folder, {**os.environ, "PYTHONPATH": paths, **environment})
        try:
            wait_for("gunicorn answers", self._is_up, START_TIMEOUT_S, self._process.log_tail)
        except BaseException:
            self.close()
            raise

    def _is_up(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, self.port)) == 0

    def ask(self, path: str) -> httpx.Response:
        # A connection each: workers are chosen by connection.
        with httpx.Client(timeout=ANSWER_TIMEOUT_S, trust_env=False) as client:
            return client.get(f"http://{HOST}:{self.port}{path}")

    def statuses(self, path: str, times: int) -> Counter[int]:
        """Of that many requests, many at once."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            return Counter(pool.map(lambda _: self.ask(path).status_code, range(times)))

    def close(self) -> None:
        self._process.clear_away()

    def log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8")
