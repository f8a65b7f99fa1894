"""The `headgate` command on a terminal of its own."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0
AGAIN_S = 8.0
ROOT = Path(__file__).parent.parent.parent


class Terminal:
    def __init__(self, words: list[str], environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "PYTHONPATH": path, **environment}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headgate", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environ,
            start_new_session=True,
            # Tests that run in the background of a shell are deaf to Ctrl-C, and would make what they start so.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        os.close(theirs)
        self.seen = ""

    def until(self, text: str) -> None:
        """Read until this was shown."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was not shown: {self.seen}"
            assert self._read(0.1) or self._process.poll() is None, f"{text!r} was not shown: {self.seen}"

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> int:
        """Ctrl-C, and what the exit code is. Python may overlook one that comes in the moment before it waits for
        input; a person would press again, and so do we."""
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            self._process.send_signal(signal.SIGINT)
            again = time.monotonic() + AGAIN_S
            while self._process.poll() is None and time.monotonic() < again:
                self._read(0.05)
        return self.end()

    def end(self) -> int:
        """What is still shown, and the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(0.1) or self._process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end: {self.seen}"
        return self._process.wait()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _read(self, wait_s: float) -> bool:
        if not select.select([self._ours], [], [], wait_s)[0]:
            return False
        try:
            raw = os.read(self._ours, 65_536)
        except OSError:  # what a terminal's end looks like
            raw = b""
        self.seen += raw.decode(errors="replace").replace("\r\n", "\n")
        return bool(raw)


@contextmanager
def terminal(*words: str, environment: Mapping[str, str]) -> Iterator[Terminal]:
    opened = Terminal(list(words), environment)
    try:
        yield opened
    finally:
        opened.close()
