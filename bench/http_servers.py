"""The servers of the HTTP benchmarks, each one thread on 127.0.0.1, ended when the benchmark is."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import OUT, REPOSITORY, compile_c
from bench.rule_sets import five_limit_rules

START_S_MAX = 20.0
STOP_S_MAX = 10.0


@dataclass(frozen=True)
class Running:
    pid: int
    port: int


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_healthy(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not answer on port {port}; status {process.poll()}") from None
            time.sleep(0.05)


@contextmanager
def stopping(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def headgate_server() -> Iterator[Running]:
    OUT.mkdir(exist_ok=True)
    rules, port = OUT / "five-limits.json", _free_port()
    rules.write_text(json.dumps({"rules": five_limit_rules()}))
    command = [str(Path(sys.executable).with_name("headgate")), "serve", "--database", "", "--threads", "1"]
    command += ["--listen", f"127.0.0.1:{port}", "--rules", str(rules)]
    with (OUT / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log, text=True)
    with stopping(process):
        _wait_until_healthy(process, port)
        yield Running(process.pid, port)


@contextmanager
def c_server() -> Iterator[Running]:
    command = [str(compile_c("epoll_server.c"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, stopping(process):
        assert process.stdout is not None
        yield Running(process.pid, int(process.stdout.readline().rpartition(":")[2]))
