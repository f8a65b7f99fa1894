"""A flood of keys nobody will ask for again."""

from __future__ import annotations

import asyncio
import time

from headgate import Limiter
from headgate._core import Decision
from tests.faults.conftest import Recorder
from tests.faults.load import warm_up
from tests.faults.measure import Row
from tests.servers.server import Server
from tests.servers.waiting import wait_for

KEYS = 20_000
AT_ONCE = 200
WINDOW_S = 1
EMPTY_TIMEOUT_S = 30


def used_bytes(server: Server) -> int:
    lines = server.command("INFO", "memory").decode().splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith("used_memory:"))


async def flood(limiter: Limiter) -> list[Decision]:
    decisions: list[Decision] = []
    for first in range(0, KEYS, AT_ONCE):
        names = (f"random-{number:x}" for number in range(first, first + AT_ONCE))
        decisions += await asyncio.gather(*(limiter.acheck_limit(name, 5, WINDOW_S) for name in names))
    return decisions


def test_a_flood_of_keys_is_forgotten_with_their_windows(record: Recorder) -> None:
    """Every key has a time to live, so the server's memory is bounded by what was asked within two windows."""
    with Server() as server:
        limiter = Limiter(store=server.url, store_deadline=2.0)
        warm_up(limiter, ["k"])
        keys_before, bytes_before = server.command("DBSIZE"), used_bytes(server)
        decisions = asyncio.run(flood(limiter))
        keys_peak, bytes_peak = server.command("DBSIZE"), used_bytes(server)
        end_s = time.monotonic()
        assert {(decision.allowed, decision.path) for decision in decisions} == {(True, "store")}
        assert keys_peak > keys_before
        wait_for("an empty server", lambda: server.command("DBSIZE") <= keys_before, EMPTY_TIMEOUT_S)
        empty_s = time.monotonic() - end_s
        # The node keeps its heartbeat there, and connections their buffers.
        left = max(0.0, used_bytes(server) - bytes_before) / (bytes_peak - bytes_before)
        assert left < 0.2
    admission = (
        f"0 wrong; {keys_peak:,} keys and {(bytes_peak - bytes_before) / 1e6:.1f} MB at the peak, {left:.0%} left"
    )
    record(
        Row(
            f"flood of {KEYS:,} random keys, {WINDOW_S} s windows",
            before_p50_ms=None,
            before_p99_ms=None,
            during_p50_ms=None,
            during_p99_ms=None,
            asked=KEYS,
            answered=len(decisions),
            by_policy=0,
            admission=admission,
            recovery=f"keys gone {empty_s:.1f} s later",
        )
    )
