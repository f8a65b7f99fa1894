"""Signals as a queue for the main thread's loop.

Handlers that set events can deadlock on the event's own lock, and `sigtimedwait` does not exist everywhere; the
interpreter's wake-up descriptor has neither fault.
"""

from __future__ import annotations

import contextlib
import select
import signal
import socket
from collections.abc import Iterator

_BYTES_MAX = 4096


class SignalQueue:
    """Collects the signals it was given, from entering to leaving. Main thread only."""

    def __init__(self, *signals: signal.Signals) -> None:
        self._signals = signals

    @contextlib.contextmanager
    def open(self) -> Iterator[SignalQueue]:
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._reader = reader
        before = {number: signal.signal(number, lambda *_: None) for number in self._signals}
        descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(descriptor)
            for number, handler in before.items():
                signal.signal(number, handler)
            reader.close()
            writer.close()

    def wait(self, timeout_s: float | None) -> list[signal.Signals]:
        """What arrived; empty when `timeout_s` passed first. None waits for as long as it takes."""
        ready, _, _ = select.select([self._reader], [], [], timeout_s)
        if not ready:
            return []
        numbers = self._reader.recv(_BYTES_MAX)
        return [signal.Signals(number) for number in numbers if number in self._signals]
