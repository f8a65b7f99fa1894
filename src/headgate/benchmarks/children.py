"""Processes that a measurement starts, and that end with it whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from headgate.errors import HeadgateError

HOST = "127.0.0.1"
START_S_MAX = 60.0
STOP_S_MAX = 15.0
_STEP_S = 0.01
_LOG_TAIL_CHARS = 2_000
_PR_SET_PDEATHSIG = 1


class BenchError(HeadgateError):
    """A measurement cannot be made here; says why."""


Child = subprocess.Popen[bytes]


@contextlib.contextmanager
def child(command: Sequence[str | os.PathLike[str]], log: Path, **options: Any) -> Iterator[Child]:
    """Runs until the block is left. What it prints goes to `log`, unless `options` say otherwise."""
    with log.open("ab") as file:
        started = subprocess.Popen(
            [os.fspath(word) for word in command],
            **{"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, **options},
            # Ctrl-C is for us to hear; we end them.
            start_new_session=True,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    try:
        yield started
    finally:
        stop(started)


def headgate(*words: str) -> list[str]:
    """The `headgate` command of this very installation."""
    return [sys.executable, "-m", "headgate", *words]


def module(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", name, *words]


def stop(process: Child) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    pipes: tuple[IO[bytes] | None, ...] = (process.stdin, process.stdout)
    for pipe in pipes:
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def wait_for(what: str, is_so: Callable[[], bool], process: Child, log: Path, timeout_s: float = START_S_MAX) -> None:
    """Raises BenchError, with what the process said last, when it ends or takes too long."""
    end_s = time.monotonic() + timeout_s
    while not is_so():
        if process.poll() is not None or time.monotonic() > end_s:
            said = log.read_text(errors="replace")[-_LOG_TAIL_CHARS:] if log.exists() else ""
            how = "ended" if process.poll() is not None else f"did not come up within {timeout_s:g} s"
            raise BenchError(f"{what} {how}\n{said}")
        time.sleep(_STEP_S)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return int(taken.getsockname()[1])


def memory_mb(pid: int, field: str = "VmHWM") -> float | None:
    """A field of /proc/PID/status: by default the most memory it ever had. None where there is no such file."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = next((line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:")), None)
    return None if found is None else round(int(found) * 1024 / 1e6, 1)


def cpu_s(pid: int) -> float:
    """Processor time a process has used, of user and system; 0 where that cannot be told."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _end_with_parent() -> None:
    """Should this process be killed, its children must not stay."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
