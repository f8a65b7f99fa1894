"""Checks in event loops: never blocking, cancelled without harm, in any loop of any thread."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time

import pytest

from headgate import Limiter
from tests.conformance.stores import PATIENT_S, Store
from tests.servers.server import Server
from tests.servers.waiting import wait_for

TICK_S = 0.005
BLOCKED_S = 0.5
"""A loop that was blocked by a store's silence would be so for seconds."""
SILENCE_S = 1.0
SETTLE_S = 10


def test_the_loop_goes_on_while_the_server_hangs(own_server: Server) -> None:
    limiter = Limiter(store=own_server.url, store_deadline=SILENCE_S, on_store_failure="closed")
    longest_s = 0.0

    async def tick() -> None:
        nonlocal longest_s
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(TICK_S)
            longest_s = max(longest_s, time.monotonic() - before_s - TICK_S)

    async def main() -> list[str]:
        assert (await limiter.acheck_limit("k", 100, 60)).path == "store"
        own_server.stop_signal()
        ticker = asyncio.create_task(tick())
        decisions = await asyncio.gather(*(limiter.acheck_limit("k", 100, 60) for _ in range(10)))
        ticker.cancel()
        return [decision.path for decision in decisions]

    assert asyncio.run(main()) == ["fallback_closed"] * 10
    assert longest_s < BLOCKED_S
    own_server.cont()


def test_a_cancelled_check_that_was_sent_counts(own_server: Server) -> None:
    limiter = Limiter(store=own_server.url, store_deadline=PATIENT_S)

    async def main() -> None:
        await limiter.acheck_limit("warm", 9, 60)
        own_server.stop_signal()
        tasks = [asyncio.create_task(limiter.acheck_limit("k", 100, 60)) for _ in range(20)]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in done)
        own_server.cont()
        assert (await limiter.acheck_limit("warm", 9, 60)).path == "store"

    asyncio.run(main())
    wait_for("all 20 are counted", lambda: limiter.peek_limit("k", 100, 60, cost=0).remaining == 80, SETTLE_S)


def test_cancelled_checks_leave_nothing_behind(single: Store) -> None:
    limiter = single.limiter()

    async def cancel_many() -> None:
        tasks = [asyncio.create_task(limiter.acheck_limit("k", 10_000, 60)) for _ in range(50)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await limiter.acheck_limit("k", 10_000, 60)).path == "store"

    async def main() -> tuple[int, int]:
        await cancel_many()
        before = futures_alive()
        for _ in range(5):
            await cancel_many()
        # An answer later than all of theirs: by then each of them was taken out of the mailbox.
        await limiter.acheck_limit("k", 10_000, 60)
        return before, futures_alive()

    before, after = asyncio.run(main())
    assert after <= before


def futures_alive() -> int:
    gc.collect()
    # By type: a framework's lazy objects wake up when they are asked what they are an instance of.
    return sum(issubclass(type(thing), asyncio.Future) for thing in gc.get_objects())


def test_a_second_event_loop_works_like_the_first(shared_store: Store) -> None:
    limiter = shared_store.limiter()

    async def ask() -> tuple[str, int | None]:
        decision = await limiter.acheck_limit("k", 10, 60)
        return decision.path, decision.remaining

    assert [asyncio.run(ask()) for _ in range(3)] == [("store", 9), ("store", 8), ("store", 7)]


def test_threads_with_loops_of_their_own_share_a_limiter(single: Store) -> None:
    limiter = single.limiter()
    told: list[int | None] = []

    async def ask() -> None:
        told.extend([(await limiter.acheck_limit("k", 100, 60)).remaining for _ in range(20)])

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SETTLE_S)
    assert sorted(left for left in told if left is not None) == list(range(20, 100))


@pytest.mark.filterwarnings("error")
def test_a_loop_may_end_with_checks_under_way(own_server: Server) -> None:
    limiter = Limiter(store=own_server.url, store_deadline=PATIENT_S)

    async def leave_some() -> None:
        await limiter.acheck_limit("warm", 1_000, 60)
        own_server.stop_signal()
        for _ in range(10):
            asyncio.get_running_loop().create_task(limiter.acheck_limit("k", 100, 60))
        await asyncio.sleep(0.05)

    async def ask() -> str:
        return (await limiter.acheck_limit("warm", 1_000, 60)).path

    asyncio.run(leave_some())
    own_server.cont()
    assert asyncio.run(ask()) == "store"
    wait_for("those under way are counted", lambda: limiter.peek_limit("k", 100, 60, cost=0).remaining == 90, SETTLE_S)


def test_loops_that_end_with_checks_under_way_leave_nothing_open(own_server: Server) -> None:
    limiter = Limiter(store=own_server.url, store_deadline=PATIENT_S)

    async def leave_one() -> None:
        asyncio.get_running_loop().create_task(limiter.acheck_limit("k", 10_000, 60))
        await asyncio.sleep(0)

    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    assert limiter.check_limit("k", 10_000, 60).path == "store"
    before = open_files()
    for _ in range(50):
        asyncio.run(leave_one())
    # Those of the last loop may be kept until there is another, and the store's thread has connections of its own.
    wait_for("all but a few are closed", lambda: open_files() <= before + 10, SETTLE_S, lambda: f"{open_files()} open")
