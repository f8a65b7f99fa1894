"""Requests whose task is cancelled, wherever it just is: counted once if they were sent, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from headgate import Limiter
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.middleware.passage import Passage
from tests.servers.server import Server
from tests.servers.waiting import wait_for

LIMIT = 1_000
RULES = [{"name": "per-ip", "by": "ip", "limit": f"{LIMIT}/day"}]
PATIENT_S = 5.0
TIMEOUT_S = 20
REQUESTS = 20
STORES = ("memory", "valkey")

Ran = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=STORES)
def limiter(request: pytest.FixtureRequest) -> Limiter:
    if request.param == "memory":
        return Limiter(RULES)
    server: Server = request.getfixturevalue("server")
    return connected(server)


def connected(server: Server) -> Limiter:
    limiter = Limiter(RULES, store=server.url, store_deadline=PATIENT_S)
    wait_for("the store", lambda: limiter.check_limit("first", 1, 60).path == "store", TIMEOUT_S)
    return limiter


async def never(_: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


async def half(_: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    await asyncio.Event().wait()


async def call(app: Any) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        pass

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "headers": [],
        "client": ("198.51.100.1", 1),
    }
    await app(scope, receive, send)


async def cancel_all(app: Any, ready: Callable[[], bool]) -> None:
    """Many at once, when they are where they are wanted."""
    tasks = [asyncio.ensure_future(call(app)) for _ in range(REQUESTS)]
    while not ready():
        await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, asyncio.CancelledError)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def used(limiter: Limiter) -> int:
    """What is counted; a peek that spends nothing."""
    remaining = limiter.peek(ip="198.51.100.1", path="/", cost=0).remaining
    assert remaining is not None
    return LIMIT - remaining


def passages_left() -> int:
    gc.collect()
    return sum(type(thing) is Passage for thing in gc.get_objects())


@pytest.mark.parametrize("app", [never, half], ids=["before-the-response", "within-the-response"])
def test_cancelled_within_the_application_it_is_counted_once(limiter: Limiter, app: Any) -> None:
    entered = 0

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        nonlocal entered
        entered += 1
        await app(scope, receive, send)

    limited = HeadgateMiddleware(counting, limiter)
    asyncio.run(cancel_all(limited, lambda: entered == REQUESTS))
    assert used(limiter) == REQUESTS
    assert passages_left() == 0


def test_cancelled_while_the_store_is_asked_it_counts_and_never_reaches_the_application(server: Server) -> None:
    """SEMANTICS 3.7: what was sent counts."""
    limiter = connected(server)

    async def unreachable(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("a cancelled request was passed on")

    server.stop_signal()
    turns = iter(range(20))
    asyncio.run(cancel_all(HeadgateMiddleware(unreachable, limiter), lambda: next(turns, None) is None))
    server.cont()
    wait_for("what was sent is counted", lambda: used(limiter) == REQUESTS, TIMEOUT_S, lambda: str(used(limiter)))
    assert passages_left() == 0


def test_a_failed_attempt_cut_off_before_its_answer_still_counts(limiter: Limiter) -> None:
    """Whoever guesses passwords must not get free guesses by hanging up early."""
    entered = 0

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        nonlocal entered
        entered += 1
        await never(scope, receive, send)

    limited = HeadgateMiddleware(counting, limiter, when=lambda response: response.status >= 400)
    asyncio.run(cancel_all(limited, lambda: entered == REQUESTS))
    assert used(limiter) == REQUESTS


def test_an_application_that_fails_is_counted_once_and_its_error_is_its_own(limiter: Limiter) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("the application's own mistake")

    async def run() -> None:
        for _ in range(REQUESTS):
            with pytest.raises(ZeroDivisionError, match="own mistake"):
                await call(HeadgateMiddleware(broken, limiter))

    asyncio.run(run())
    assert used(limiter) == REQUESTS
    assert passages_left() == 0
