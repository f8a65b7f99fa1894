"""One started server process, never left behind."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

DEATH_TIMEOUT_S = 10
LOG_TAIL_LINES = 30


class Process:
    """A process in a session of its own, with its output in a file: Ctrl-C reaches the tests and not the server."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        user: int | None = None,
    ) -> None:
        self._folder = folder
        self._log = folder / "server.log"
        self._owner_pid = os.getpid()
        self.command = [str(part) for part in command]
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(
                self.command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # A server that refuses to run as root is given another user, and none of our groups.
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        _living.add(self)
        _reaper.tell(f"+{self.pid} {folder}")

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        return self._popen.poll()

    @property
    def is_ours(self) -> bool:
        """False in a fork of the test process, which must not take the servers down when it ends."""
        return self._owner_pid == os.getpid()

    def send(self, signal_number: signal.Signals) -> None:
        # Popen checks that the process is still there to be signalled: its pid may be somebody else's by now.
        self._popen.send_signal(signal_number)

    def hang(self) -> None:
        """SIGSTOP; returns when every thread stands still, which takes a moment."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self) -> None:
        """SIGKILL to the whole group, which also ends a stopped process; returns when it is gone."""
        if not self.is_ours:
            return
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait(DEATH_TIMEOUT_S)
        _living.discard(self)
        _reaper.tell(f"-{self.pid}")

    def clear_away(self) -> None:
        """Kills it and removes its folder."""
        if self.is_ours:
            self.kill()
            shutil.rmtree(self._folder, ignore_errors=True)

    def log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join([" ".join(self.command), f"exit code: {self.exit_code}", *lines[-LOG_TAIL_LINES:]])


class _Reaper:
    """The helper process of `reaper.py`, started with the first server."""

    def __init__(self) -> None:
        self._popen: subprocess.Popen[bytes] | None = None

    def tell(self, line: str) -> None:
        if self._popen is None:
            script = Path(__file__).with_name("reaper.py")
            command = [sys.executable, "-I", "-S", str(script)]
            self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self._popen.stdin is not None
        os.write(self._popen.stdin.fileno(), line.encode() + b"\n")

    def close(self) -> None:
        """Once nothing is left to reap."""
        if self._popen is not None and self._popen.stdin is not None:
            self._popen.stdin.close()
            # A fork of the tests may still hold the other end of its input open: it would wait for that one too.
            self._popen.kill()
            self._popen.wait(DEATH_TIMEOUT_S)
            self._popen = None


_living: set[Process] = set()
_reaper = _Reaper()
_home_pid = os.getpid()


@atexit.register
def _kill_all() -> None:
    if os.getpid() != _home_pid:
        return
    for process in list(_living):
        process.clear_away()
    _reaper.close()
