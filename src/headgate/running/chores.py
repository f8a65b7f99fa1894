"""What the main thread of a node does while Rust threads answer: chores, each every so often, until told to stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.running.signals import SignalQueue

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Chore:
    """`look` is told whether it was asked for (SIGHUP) or is just due. With `every_s` 0 it is never due."""

    look: Callable[[bool], None]
    every_s: float


def do_chores(signals: SignalQueue, chores: Sequence[Chore]) -> None:
    """Until a signal says stop."""
    due_s = {chore: time.monotonic() + chore.every_s for chore in chores if chore.every_s}
    while True:
        wait_s = max(0.0, min(due_s.values()) - time.monotonic()) if due_s else None
        arrived = signals.wait(wait_s)
        if any(number in STOP_SIGNALS for number in arrived):
            return
        asked = signal.SIGHUP in arrived
        for chore in chores:
            if asked or (chore in due_s and time.monotonic() >= due_s[chore]):
                chore.look(asked)
                if chore in due_s:
                    due_s[chore] = time.monotonic() + chore.every_s
