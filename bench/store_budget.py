"""Where the time of one check goes when there is little to do: checks a millisecond apart, under the usual deadline."""

import asyncio
import time
from collections.abc import Callable, Sequence
from time import perf_counter_ns

from bench.figure import Effort, Figure
from bench.store_limiter import ROOMY, users, warm_up
from bench.store_meter import Meter
from bench.timing import no_collections, percentile
from headgate import Decision, Limiter
from tests.servers.server import Server
from tests.servers.wire import Wire

NAME = "store_budget"
PAUSE_S = 0.001
PONG = b"+PONG\r\n"
LIMIT = ROOMY["sliding_window"]


def _sync_ns(limiter: Limiter, keys: Sequence[str]) -> tuple[list[int], int]:
    """How long each took, and how many the store did not answer in time."""
    times_ns, late = [], 0
    for key in keys:
        start = perf_counter_ns()
        decision = limiter.check_limit(key, *LIMIT)
        times_ns.append(perf_counter_ns() - start)
        late += decision.path != "store"
        time.sleep(PAUSE_S)
    return times_ns, late


async def _async_ns(limiter: Limiter, keys: Sequence[str]) -> tuple[list[int], int]:
    times_ns, late = [], 0
    for key in keys:
        start = perf_counter_ns()
        decision: Decision = await limiter.acheck_limit(key, *LIMIT)
        times_ns.append(perf_counter_ns() - start)
        late += decision.path != "store"
        await asyncio.sleep(PAUSE_S)
    return times_ns, late


def _ping_ns(port: int, count: int) -> list[int]:
    times_ns = []
    with Wire(port) as wire:
        for _ in range(count):
            start = perf_counter_ns()
            wire.ask("PING", expect=PONG)
            times_ns.append(perf_counter_ns() - start)
            time.sleep(PAUSE_S)
    return times_ns


def _in_memory_us(keys: Sequence[str]) -> float:
    """The same check without a store, just as rarely: what the engine and Python take of it."""
    limiter = Limiter()
    return _p_us(_sync_ns(limiter, keys)[0], 0.5)


def _p_us(times_ns: Sequence[int], share: float) -> float:
    return round(percentile(sorted(times_ns), share) / 1e3, 1)


def _figure(server: Server, name: str, keys: Sequence[str], play: Callable[[Limiter], tuple[list[int], int]]) -> Figure:
    meter = Meter(server)
    limiter = Limiter(store=server.url)
    warm_up(limiter)
    meter.forget_times()
    times_ns, late = play(limiter)
    p50_us, script_us = _p_us(times_ns, 0.5), round(meter.script_p50_us(), 1)
    ping_us, in_memory_us = _p_us(_ping_ns(server.port, len(keys)), 0.5), _in_memory_us(keys)
    raw: dict[str, float | str] = {
        "p50 µs": p50_us,
        "p99 µs": _p_us(times_ns, 0.99),
        "of p50: an empty round trip (PING) µs": ping_us,
        "script µs": script_us,
        "the check in memory µs": in_memory_us,
        "all else µs": round(p50_us - ping_us - script_us - in_memory_us, 1),
        "checks": len(keys),
        "not answered within 5 ms": late,
    }
    return Figure(NAME, f"{name}, little load: p50 vs an empty round trip", p50_us / ping_us, "x", raw=raw)


def run(effort: Effort) -> list[Figure]:
    keys = users(effort.pick(1_000, 200))
    with Server() as server, no_collections(), asyncio.Runner() as runner:
        return [
            _figure(server, "check_limit", keys, lambda limiter: _sync_ns(limiter, keys)),
            _figure(server, "acheck_limit", keys, lambda limiter: runner.run(_async_ns(limiter, keys))),
        ]
