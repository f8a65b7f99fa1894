"""What async checks over a shared store are measured against, each in several set-ups, of which the fastest counts."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import redis.asyncio
from limits import RateLimitItemPerHour
from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from redis._parsers import _AsyncHiredisParser, _AsyncRESP2Parser

from bench.crowd import Work
from bench.rule_sets import FIVE_LIMITS
from bench.store_limiter import PLENTY, TASKS

DRIVERS = ("redispy", "coredis", "valkey")
PARSERS: dict[str, type[Any]] = {"Python": _AsyncRESP2Parser, "hiredis": _AsyncHiredisParser}


def five_limits_hits(url: str, closing: AsyncExitStack) -> dict[str, Work]:
    """`limits` with a fixed window, its fastest strategy, over each of its drivers: hit after hit, or five at once."""
    contestants: dict[str, Work] = {}
    for driver in DRIVERS:
        connections_max = FIVE_LIMITS * TASKS
        storage = RedisStorage(f"async+{url}", implementation=driver, max_connections=connections_max)  # type: ignore[arg-type]
        closing.push_async_callback(_close, storage.bridge.storage)  # type: ignore[attr-defined]
        strategy = FixedWindowRateLimiter(storage)
        contestants[f"limits {driver}"] = _hit_after_hit(strategy)
        contestants[f"limits {driver} gathered"] = _hits_at_once(strategy)
    return contestants


async def _close(client: Any) -> None:
    if hasattr(client, "aclose"):
        await client.aclose()
    else:
        client.connection_pool.disconnect()


def _items() -> list[RateLimitItemPerHour]:
    # Different amounts keep the five apart: `limits` names a counter by its limit and the identifiers.
    return [RateLimitItemPerHour(PLENTY + number) for number in range(FIVE_LIMITS)]


def _hit_after_hit(strategy: FixedWindowRateLimiter) -> Work:
    hit, items = strategy.hit, _items()

    async def work(users: Iterator[str]) -> None:
        for user in users:
            for item in items:
                await hit(item, user)

    return work


def _hits_at_once(strategy: FixedWindowRateLimiter) -> Work:
    hit, items, gather = strategy.hit, _items(), asyncio.gather

    async def work(users: Iterator[str]) -> None:
        for user in users:
            await gather(*(hit(item, user) for item in items))

    return work


def bare_incr(url: str, closing: AsyncExitStack) -> dict[str, Work]:
    """`redis.asyncio` with a connection for every task, RESP2 (the cheaper protocol to read), and both its parsers."""
    contestants: dict[str, Work] = {}
    for name, parser in PARSERS.items():
        pool = redis.asyncio.ConnectionPool.from_url(url, max_connections=TASKS, protocol=2, parser_class=parser)
        client = redis.asyncio.Redis.from_pool(pool)
        closing.push_async_callback(client.aclose)
        contestants[f"INCR {name} parser"] = _incr(client)
    return contestants


def _incr(client: redis.asyncio.Redis) -> Work:
    incr = client.incr

    async def work(keys: Iterator[str]) -> None:
        for key in keys:
            await incr(key)

    return work
