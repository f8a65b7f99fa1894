"""Who works at once, and who waits: changes wait for the database's lock, and must not take all threads with them.

A call that waits for its turn holds no thread. So while a million rules are merged and everybody else's changes wait,
looking and health go on, and an emergency has threads of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.to_thread

from headgate.control.api.problems import Problem

T = TypeVar("T")

RETRY_S = 5


class Turns:
    """So many at once, each on a thread. Who waits longer than `wait_s` gets a Problem (503)."""

    def __init__(self, at_once: int, wait_s: float, busy: str) -> None:
        self._places = anyio.CapacityLimiter(at_once)
        # As many as there are places: what has its turn never waits again.
        self._threads = anyio.CapacityLimiter(at_once)
        self._wait_s, self._busy = wait_s, busy

    async def run(self, work: Callable[[], T]) -> T:
        holder = object()
        try:
            with anyio.fail_after(self._wait_s):
                await self._places.acquire_on_behalf_of(holder)
        except TimeoutError:
            raise Problem(503, f"{self._busy}; try again in a while", headers={"Retry-After": str(RETRY_S)}) from None
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._places.release_on_behalf_of(holder)


@dataclass(frozen=True, slots=True)
class AllTurns:
    changes: Turns = field(default_factory=lambda: Turns(16, 30.0, "many other changes are being made"))
    emergencies: Turns = field(default_factory=lambda: Turns(8, 30.0, "many other changes are being made"))
    # Each holds its memory for as long as it takes.
    uploads: Turns = field(default_factory=lambda: Turns(2, 20.0, "other uploads are being applied"))
    # Each reads very much, on one of the few connections to the database that changes need too.
    copies: Turns = field(default_factory=lambda: Turns(4, 30.0, "others are copying the whole configuration"))
    # All nodes may ask at once, and wait for the same snapshot to be made; people must still get in.
    nodes: Turns = field(default_factory=lambda: Turns(16, 20.0, "many other nodes are asking"))
    snapshots: Turns = field(default_factory=lambda: Turns(4, 25.0, "other nodes wait for a snapshot"))
    # Whoever waits for the fleet holds a thread all the time.
    watchers: Turns = field(default_factory=lambda: Turns(64, 30.0, "many others wait for the fleet"))
