"""Looking at several things at once, for so long and no longer.

A name server or a disk may keep a thread for minutes, and no time-out of a socket helps. Threads that are not back in
time are left behind: they are daemons, and the process that started them ends soon.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")

THREADS_MAX = 64


def together(looks: Mapping[K, Callable[[], T]], timeout_s: float) -> dict[K, T]:
    """What each look gave; those that were not back in time are missing. A look must not raise."""
    assert len(looks) <= THREADS_MAX
    back: queue.SimpleQueue[tuple[K, T]] = queue.SimpleQueue()
    for name, look in looks.items():
        threading.Thread(target=_run, args=(name, look, back), name="headgate-doctor", daemon=True).start()
    found: dict[K, T] = {}
    end_s = time.monotonic() + timeout_s
    while len(found) < len(looks):
        try:
            name, seen = back.get(timeout=max(0.0, end_s - time.monotonic()))
        except queue.Empty:
            break
        found[name] = seen
    return found


def within(look: Callable[[], T], timeout_s: float) -> T | None:
    """One look; None when it was not back in time."""
    return together({"": look}, timeout_s).get("")


def _run(name: K, look: Callable[[], T], back: queue.SimpleQueue[tuple[K, T]]) -> None:
    back.put((name, look()))
