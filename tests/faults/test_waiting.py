"""While a check waits for a store that hangs, nothing else in the process does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headgate import Limiter
from tests.faults.load import warm_up
from tests.servers.server import Server

DEADLINE_S = 1.0
TICK_S = 0.005
# A twentieth of what would fit.
TICKS_MIN = int(DEADLINE_S / TICK_S / 20)


@pytest.fixture
def hung() -> Iterator[Limiter]:
    with Server() as server:
        limiter = Limiter(store=server.url, store_deadline=DEADLINE_S)
        warm_up(limiter)
        server.stop_signal()
        yield limiter


def ticks_while(wait: Callable[[], object]) -> int:
    """How often another thread woke up meanwhile."""
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            time.sleep(TICK_S)
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    wait()
    done.set()
    thread.join()
    return ticks


def test_a_thread_that_waits_holds_up_no_other_thread(hung: Limiter) -> None:
    def wait() -> None:
        assert hung.check_limit("k", 5, 60).path == "fallback_open"

    assert ticks_while(wait) >= TICKS_MIN


def test_a_task_that_waits_holds_up_neither_its_loop_nor_a_thread(hung: Limiter) -> None:
    turns = 0

    async def main() -> None:
        nonlocal turns
        waiting = [asyncio.ensure_future(hung.acheck_limit("k", 5, 60)) for _ in range(10)]
        while not all(task.done() for task in waiting):
            await asyncio.sleep(TICK_S)
            turns += 1
        assert {task.result().path for task in waiting} == {"fallback_open"}

    assert ticks_while(lambda: asyncio.run(main())) >= TICKS_MIN
    assert turns >= TICKS_MIN
