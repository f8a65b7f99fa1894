"""How long an event loop stood still, less what the machine itself took."""

from __future__ import annotations

import asyncio
import threading
import time

BEAT_S = 0.005
STALL_MIN_S = 0.01


class Heartbeat:
    """A task that wakes up every few milliseconds and notes the longest it was not let to; a thread beside it notes
    when not even that was woken: then it was the machine."""

    def __init__(self) -> None:
        self.gap_s = 0.0
        self._stalls: list[tuple[float, float]] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._beat())
        threading.Thread(target=self._watch, daemon=True).start()

    def reset(self) -> None:
        self.gap_s = 0.0
        self._stalls.clear()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _beat(self) -> None:
        while True:
            start_s = time.monotonic()
            await asyncio.sleep(BEAT_S)
            end_s = time.monotonic()
            by_machine_s = sum(
                max(0.0, min(end_s, until_s) - max(start_s, from_s)) for from_s, until_s in list(self._stalls)
            )
            self.gap_s = max(self.gap_s, end_s - start_s - BEAT_S - by_machine_s)

    def _watch(self) -> None:
        while True:
            start_s = time.monotonic()
            time.sleep(BEAT_S)
            end_s = time.monotonic()
            if end_s - start_s > BEAT_S + STALL_MIN_S:
                self._stalls.append((start_s, end_s))
