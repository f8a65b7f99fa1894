"""Requests share calls: one for all limits of a request, and one for all requests that wait."""

from __future__ import annotations

import asyncio
import json

from headgate import Limiter
from headgate._core import Decision
from headgate.waiting import mailbox
from tests.conformance.stores import PATIENT_S, Store
from tests.conformance.watched import script_calls
from tests.servers.server import Server

FIVE_SUBJECTS = [
    {"name": "user", "by": "user", "limit": "10/hour"},
    {"name": "org", "by": "org", "limit": "20/hour"},
    {"name": "ip", "by": "ip", "limit": "30/hour", "algorithm": "fixed_window"},
    {"name": "endpoint", "by": "endpoint", "limit": "40/hour", "algorithm": "sliding_log"},
    {"name": "all", "by": "global", "limit": "50/hour burst 50"},
]
TOGETHER = 64
WARMING = 50


def test_five_limits_of_one_request_are_one_call(single: Store) -> None:
    limiter = single.limiter(FIVE_SUBJECTS)
    limiter.check(user="warm", org="o", ip="198.51.100.1", path="/")
    with script_calls(single.holders()[0]) as calls:
        decision = limiter.check(user="1", org="o", ip="198.51.100.1", path="/")
    assert len(decision.results) == 5
    assert decision.path == "store"
    assert len(calls) == 1


def test_five_limits_of_one_async_request_are_one_call(single: Store) -> None:
    limiter = single.limiter(FIVE_SUBJECTS)

    async def ask() -> Decision:
        return await limiter.acheck(user="1", org="o", ip="198.51.100.1", path="/")

    asyncio.run(ask())
    with script_calls(single.holders()[0]) as calls:
        decision = asyncio.run(ask())
    assert (len(decision.results), decision.path) == (5, "store")
    assert len(calls) == 1


def test_requests_that_wait_share_calls_and_their_answers_wake_the_loop_once_a_call(own_server: Server) -> None:
    """The server is held until all of them are there. How many calls it is sent meanwhile depends on how far away it
    seemed before: hence the warming."""
    limiter = Limiter(store=own_server.url, store_deadline=PATIENT_S)

    async def ask() -> int:
        for _ in range(WARMING):
            await limiter.acheck_limit("warm", 1_000, "1 hour")
        box = mailbox(asyncio.get_running_loop())
        before = box.wakeups
        own_server.stop_signal()
        checks = asyncio.gather(*(limiter.acheck_limit(f"k{n}", 9, "1 hour") for n in range(TOGETHER)))
        await asyncio.sleep(0.05)
        own_server.cont()
        assert {(decision.path, decision.remaining) for decision in await checks} == {("store", 8)}
        return box.wakeups - before

    with script_calls(own_server) as calls:
        wakeups = asyncio.run(ask())
    shared = len(calls) - WARMING
    assert 1 <= shared < TOGETHER // 2
    assert 1 <= wakeups <= shared


def test_no_call_carries_more_than_64_requests(single: Store) -> None:
    """A longer script would keep everybody else's waiting."""
    limiter = single.limiter()

    async def ask() -> None:
        await limiter.acheck_limit("warm", 1_000, "1 hour")
        await asyncio.gather(*(limiter.acheck_limit(f"k{n}", 9, "1 hour") for n in range(1_000)))

    with script_calls(single.holders()[0]) as calls:
        asyncio.run(ask())
    # EVALSHA sha numkeys key ...
    assert max(int(call.split()[2]) for call in calls) <= 64
    assert 1_000 // 64 < len(calls) < 500


def test_a_refused_client_is_not_asked_about_again_at_once(single: Store) -> None:
    limiter = single.limiter(refused_memory=True)
    with script_calls(single.holders()[0]) as calls:
        paths = [limiter.check_limit("k", 1, "1 hour").path for _ in range(20)]
    assert paths[:2] == ["store", "store"]
    assert paths.count("refused_memory") == 20 - len(calls) >= 10


def test_the_status_tells_calls_from_requests(single: Store) -> None:
    limiter = single.limiter()

    async def ask() -> None:
        await asyncio.gather(*(limiter.acheck_limit(f"k{n}", 9, "1 hour") for n in range(TOGETHER)))

    asyncio.run(ask())
    (shard,) = json.loads(limiter.store_status())["shards"]
    assert shard["requests"] == TOGETHER
    assert 1 <= shard["calls"] < TOGETHER
    assert (shard["errors"], shard["timeouts"], shard["breaker"]) == (0, 0, "closed")
