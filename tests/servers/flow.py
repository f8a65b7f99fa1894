"""One direction of one proxied connection: bytes held until they are due, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

HELD_BYTES_MAX = 64 * 1024 * 1024


@dataclass
class Road:
    """What all connections of one direction share: how long bytes take, whether they arrive, and what has arrived.

    A closed road loses nothing: as TCP would resend it, what was sent meanwhile arrives when the road is open again.
    """

    delay_s: float = 0.0
    is_open: bool = True
    bytes: int = 0
    chunks: int = 0


class Flow:
    """Bytes are timed, not slept on: any number can be on their way at once."""

    def __init__(self, road: Road, deliver: Callable[[bytes], None], finish: Callable[[], None]) -> None:
        self._road = road
        self._deliver = deliver
        self._finish = finish
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, bytes | None]] = deque()
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._sender: asyncio.Transport | None = None
        self._is_writable = False
        self._is_over = False

    def sent_by(self, sender: asyncio.Transport) -> None:
        self._sender = sender

    def put(self, data: bytes) -> None:
        self._hold(data)
        if self._held_bytes > HELD_BYTES_MAX and self._sender is not None:
            self._sender.pause_reading()
        self.move()

    def end(self) -> None:
        """The sender has closed; whoever receives learns of it after everything sent before."""
        self._hold(None)
        self.move()

    def set_writable(self, is_writable: bool) -> None:
        self._is_writable = is_writable
        self.move()

    def drop(self) -> None:
        """The receiver is gone."""
        self._is_over = True
        self._held.clear()
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    def move(self) -> None:
        """Delivers what is due and sets a timer for what is not."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._held and self._road.is_open and self._is_writable:
            due_s, data = self._held[0]
            if due_s > self._loop.time():
                self._timer = self._loop.call_at(due_s, self.move)
                return
            self._held.popleft()
            self._hand_over(data)

    def _hold(self, data: bytes | None) -> None:
        if not self._is_over:
            self._held_bytes += len(data or b"")
            self._held.append((self._loop.time() + self._road.delay_s, data))

    def _hand_over(self, data: bytes | None) -> None:
        if data is None:
            self._finish()
            return
        self._held_bytes -= len(data)
        if self._sender is not None and self._held_bytes <= HELD_BYTES_MAX and not self._sender.is_closing():
            self._sender.resume_reading()
        self._deliver(data)
