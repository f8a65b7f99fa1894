"""Real web servers: an application of `tests.web` under each of them, on a free port."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import NotInTime, wait_for

PROJECT = Path(__file__).parents[2]
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 20
# Every application of these tests has it, unlimited.
READY = "/ready"
ASK_TIMEOUT_S = 30
# How an application learns what its test wants of it.
WANTED = "HEADGATE_WEB_TEST"

ASGI_SERVERS = ("uvicorn", "hypercorn", "granian", "gunicorn-asgi")
WSGI_SERVERS = ("gunicorn", "granian-wsgi")


def _command(server: str, target: str, port: int, workers: int) -> list[str]:
    address, count = f"{HOST}:{port}", str(workers)
    here = ["--host", HOST, "--port", str(port), "--workers", count]
    # Its control socket would lie in the home folder, one for all.
    gunicorn = ["gunicorn", "--no-control-socket", "--bind", address, "--workers", count]
    commands = {
        "uvicorn": ["uvicorn", *here, "--lifespan", "on", "--no-access-log", *_as_uvicorn_has_it(target)],
        "hypercorn": ["hypercorn", "--bind", address, "--workers", count, target],
        "granian": ["granian", "--interface", "asgi", *here, target],
        "granian-wsgi": ["granian", "--interface", "wsgi", *here, target],
        "gunicorn": [*gunicorn, "--threads", "4", target],
        "gunicorn-asgi": [*gunicorn, "--worker-class", "uvicorn.workers.UvicornWorker", target],
    }
    return [sys.executable, "-m", *commands[server]]


def _as_uvicorn_has_it(target: str) -> list[str]:
    return ["--factory", target.removesuffix("()")] if target.endswith("()") else [target]


class WebServer(Closing):
    """Starts at once and answers; `wanted` is what the application reads of its test. Its workers end with it.

    `target` is `module:name`; under uvicorn and gunicorn also `module:function()`, which makes the application.
    `options` are more of the server's own.
    """

    def __init__(
        self,
        server: str,
        target: str,
        *,
        workers: int = 1,
        wanted: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self._folder = Path(tempfile.mkdtemp(prefix="hg-web-"))
        command = [*_command(server, target, self.port, workers), *options]
        self._process = Process(command, self._folder, _environment(wanted or {}))
        try:
            with httpx.Client(base_url=self.url, trust_env=False, timeout=ASK_TIMEOUT_S) as client:
                wait_for(f"{server} answers", lambda: self._is_up(client), START_TIMEOUT_S, self.log)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self) -> httpx.Client:
        """A new one; the caller closes it."""
        return httpx.Client(base_url=self.url, trust_env=False, timeout=ASK_TIMEOUT_S)

    def log(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")

    def stop(self) -> None:
        """As an operator does, with SIGTERM. It must end: what runs behind a limiter keeps nothing alive."""
        self._process.send(signal.SIGTERM)
        wait_for("the server's end", lambda: self._process.exit_code is not None, STOP_TIMEOUT_S, self.log)

    def close(self) -> None:
        self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_up(self, client: httpx.Client) -> bool:
        if self._process.exit_code is not None:
            raise NotInTime(f"the server ended at once\n{self.log()}")
        try:
            return client.get(READY).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


def _environment(wanted: Mapping[str, Any]) -> dict[str, str]:
    paths = [str(PROJECT / "src"), str(PROJECT), os.environ.get("PYTHONPATH", "")]
    inherited = {name: value for name, value in os.environ.items() if name != "WEB_CONCURRENCY"}
    return inherited | {WANTED: json.dumps(wanted), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def wanted() -> dict[str, Any]:
    """In an application: what its test wants of it."""
    found: dict[str, Any] = json.loads(os.environ.get(WANTED, "{}"))
    return found
