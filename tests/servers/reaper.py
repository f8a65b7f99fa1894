"""Kills what its parent started if the parent dies without having done so: run as a script, told of pids on stdin.

Python's own exit hooks do not run when a test process is killed (`timeout`, an out-of-memory killer), and servers
started by it would stay for ever, and so would their folders. Lines are `+PID FOLDER` and `-PID`; the end of the input
is the death of the parent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys


def reap() -> None:
    folders: dict[int, str] = {}
    for line in sys.stdin:
        pid, _, folder = line[1:].rstrip("\n").partition(" ")
        if line[0] == "+":
            folders[int(pid)] = folder
        else:
            folders.pop(int(pid), None)
    for left, folder in folders.items():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(left, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    reap()
