"""Limits on what the middleware does not decide about: exempt paths and WebSockets."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from headgate import Limiter
from headgate.middleware import Request
from headgate.middleware.fastapi import HeadgateMiddleware, limit
from headgate.testing import FakeClock

ADDRESS = ("192.0.2.1", 50_000)
CALLS = {"name": "calls", "by": "user", "limit": "1/minute"}


async def who(request: Request) -> str | None:
    return request.headers.get("x-user")


def application(identify: Any) -> tuple[FastAPI, Limiter]:
    limiter = Limiter([CALLS], clock=FakeClock())
    app = FastAPI()
    app.add_middleware(HeadgateMiddleware, limiter=limiter, exempt=["/exempt"], identify=identify)
    two = limit("2/minute", name="two")

    @app.get("/exempt", dependencies=[Depends(two)])
    async def exempt() -> str:
        return "free of rules"

    @app.websocket("/talk", dependencies=[Depends(two)])
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    return app, limiter


@pytest.mark.parametrize("identify", [who, lambda request: request.headers.get("x-user")], ids=["async", "sync"])
def test_a_limit_there_counts_with_the_middlewares_limiter_and_by_whom_it_knows(identify: Any) -> None:
    app, limiter = application(identify)
    ann, bob = (TestClient(app, client=ADDRESS, headers={"x-user": user}) for user in ("ann", "bob"))
    assert [ann.get("/exempt").status_code for _ in range(3)] == [200, 200, 429]
    assert bob.get("/exempt").status_code == 200
    assert bob.get("/exempt").headers["x-ratelimit-remaining"] == "0"
    # The rules were not asked, and the counters are where the rules' are.
    assert limiter.peek(user="ann").allowed
    assert limiter.stats()["keys"] == 2


def test_websockets_share_a_limit_with_routes() -> None:
    app, _ = application(who)
    client = TestClient(app, client=ADDRESS, headers={"x-user": "ann"})
    assert client.get("/exempt").status_code == 200
    with client.websocket_connect("/talk"):
        pass
    with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect("/talk"):
        pass
    assert refused.value.code == 1013
