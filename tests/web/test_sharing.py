"""Who spends whose limit: one user over theirs never burns a shared one, and two clients never share by accident."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI

from headgate import IdentityOptions, Limiter
from headgate.middleware import Request
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.middleware.fastapi import limit
from tests.servers.server import Server
from tests.web.load import ask_at_once, statuses
from tests.web.servers import WebServer

OWN, SHARED = 5, 20
RULES = [
    {"name": "per-user", "by": "user", "limit": f"{OWN}/day"},
    {"name": "everyone", "by": "global", "limit": f"{SHARED}/day"},
]
PATIENT_S = 5.0
GREEDY_REQUESTS = 100
OTHERS = ("bob", "carol", "dave")
SHARED_FIRST, SHARED_LAST = "/shared-first", "/shared-last"


def user_of(request: Request) -> str | None:
    return request.headers.get("x-user")


def ask(app: Any, users: Sequence[str], path: str = "/items", client: str = "198.51.100.1") -> Counter[int]:
    async def run() -> Counter[int]:
        transport = httpx.ASGITransport(app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as web:
            requests = (web.get(path, headers={"x-user": user}) for user in users)
            return Counter(response.status_code for response in await asyncio.gather(*requests))

    return asyncio.run(run())


def application(limiter: Limiter) -> HeadgateMiddleware:
    app = FastAPI()

    @app.get("/items")
    async def items() -> dict[str, Any]:
        return {}

    for path in SHARED_FIRST, SHARED_LAST:
        everyone = limit(f"{SHARED}/day", by="global", name=f"everyone {path}")
        each = limit(f"{OWN}/day", by="user", name=f"each {path}")
        both = [everyone, each] if path == SHARED_FIRST else [each, everyone]
        app.get(path, dependencies=[Depends(one) for one in both])(items)

    @app.get("/addresses")
    async def addresses(_: Annotated[None, Depends(limit(f"{OWN}/day", by="ip"))]) -> dict[str, Any]:
        return {}

    return HeadgateMiddleware(app, limiter, identify=user_of)


def test_one_user_over_their_limit_burns_no_shared_limit(limited: HeadgateMiddleware) -> None:
    assert ask(limited, ["alice"] * GREEDY_REQUESTS) == {200: OWN, 429: GREEDY_REQUESTS - OWN}
    for user in OTHERS:
        assert ask(limited, [user] * OWN) == {200: OWN}, user
    assert ask(limited, ["erin"]) == {429: 1}, "the shared limit is spent by those who passed, and by nobody else"


@pytest.fixture
def limited() -> HeadgateMiddleware:
    return application(Limiter(RULES))


@pytest.mark.parametrize("path", [SHARED_FIRST, SHARED_LAST])
def test_limits_of_a_route_give_back_what_a_refusal_by_another_spent(path: str) -> None:
    """Asked first, the shared limit has spent by the time the user's own refuses."""
    app = application(Limiter())
    assert ask(app, ["alice"] * GREEDY_REQUESTS, path) == {200: OWN, 429: GREEDY_REQUESTS - OWN}
    for user in OTHERS:
        assert ask(app, [user] * OWN, path) == {200: OWN}, user
    assert ask(app, ["erin"], path) == {429: 1}


def test_two_clients_behind_one_route_never_share_a_bucket_by_accident() -> None:
    app = application(Limiter())
    for client in ("198.51.100.1", "198.51.100.2"):
        assert ask(app, ["-"] * (OWN + 1), "/addresses", client) == {200: OWN, 429: 1}, client


def test_two_clients_behind_one_trusted_proxy_never_share_a_bucket() -> None:
    limiter = Limiter(identity=IdentityOptions(trusted_proxies=["10.0.0.0/8"]))
    app: Any = application(limiter)

    async def run() -> dict[str, Counter[int]]:
        transport = httpx.ASGITransport(app, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as web:
            told = {}
            for address in ("198.51.100.1", "198.51.100.2"):
                headers = {"x-forwarded-for": address}
                answers = [await web.get("/addresses", headers=headers) for _ in range(OWN + 1)]
                told[address] = Counter(answer.status_code for answer in answers)
            return told

    for address, told in asyncio.run(run()).items():
        assert told == {200: OWN, 429: 1}, address


@pytest.fixture
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


def test_with_two_workers_and_a_store_one_user_over_their_limit_burns_no_shared_limit(store: Server) -> None:
    wanted = {"rules": RULES, "store": store.url, "store_deadline": PATIENT_S}
    with WebServer("uvicorn", "tests.web.application:asgi", workers=2, wanted=wanted) as web:
        greedy = ask_at_once(web, "/items", ["alice"] * GREEDY_REQUESTS, concurrent=8)
        assert statuses(greedy) == {200: OWN, 429: GREEDY_REQUESTS - OWN}
        others = ask_at_once(web, "/items", [user for user in OTHERS for _ in range(OWN)], concurrent=8)
        assert statuses(others) == {200: len(OTHERS) * OWN}
