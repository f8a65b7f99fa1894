"""Requests made to slip past: whatever a client writes, it is counted as what the application takes it for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from headgate import IdentityOptions, Limiter
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.middleware.starlette import limit
from tests.integration.tokens import SECRET
from tests.web.asgi_call import call
from tests.web.asgi_client import rule

PER_IP = [rule("per-ip", "ip", "1/minute")]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def hello(scope: dict[str, Any], receive: Any, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


def without_raw_path(app: Any) -> Any:
    """As under servers that do not tell it, such as those of cloud functions."""

    async def served(scope: dict[str, Any], receive: Any, send: Send) -> None:
        await app({**scope, "raw_path": None}, receive, send)

    return served


def are_counted(app: Any, *targets: str) -> bool:
    """Whether the second of any two is refused."""
    for target in targets:
        statuses = [asyncio.run(call(app, target, ip="203.0.113.7")).status for _ in range(2)]
        if statuses[-1] != 429:
            return False
    return True


@pytest.mark.parametrize("identify", [None, lambda _: None], ids=["identity", "own function"])
def test_a_path_is_decoded_once_also_where_the_server_tells_only_the_decoded_one(identify: Any) -> None:
    """`%252e%252e` is a name with percent signs in it, for the application and so for us."""
    rules = [rule("here", "ip", "1/minute", match={"endpoint": "/here/*"})]
    app = without_raw_path(HeadgateMiddleware(hello, rules=rules, identify=identify, exempt=["/healthz"]))
    target = "/here/%252e%252e/%252e%252e/healthz"
    assert unquote(target) == "/here/%2e%2e/%2e%2e/healthz"
    assert are_counted(app, target)


@pytest.mark.parametrize("exempt", ["/healthz", "/static/*", "/users/{id}/avatar"])
@pytest.mark.parametrize("prefix", ["/search/..", "/search/%2e%2e", "/search/x%2f..%2F..", "/", "/.", "/search/../"])
def test_a_path_that_only_tidying_makes_exempt_is_not(exempt: str, prefix: str) -> None:
    """A route such as `/search/{words:path}` takes it as it is written, and does all its work for it."""
    app = HeadgateMiddleware(hello, rules=PER_IP, exempt=[exempt])
    plain = exempt.replace("*", "logo.png").replace("{id}", "7")
    assert not are_counted(app, plain)
    assert are_counted(app, f"{prefix}{plain}")
    assert are_counted(app, f"{plain}#{prefix}")


def test_a_newline_at_the_end_of_a_path_is_no_other_path() -> None:
    """Starlette's routes end with `$`, which matches before a newline: `/login%0a` is served by `/login`."""

    async def login(request: Request) -> PlainTextResponse:
        return PlainTextResponse("in")

    app = Starlette(routes=[Route("/login", login)])
    assert asyncio.run(call(app, "/login%0a")).status == 200
    rules = [rule("login", "ip", "1/minute", match={"endpoint": "/login"})]
    assert are_counted(HeadgateMiddleware(app, rules=rules), "/login%0a")
    assert are_counted(HeadgateMiddleware(app, rules=PER_IP, exempt=["/login"]), "/login%0a")


@pytest.mark.parametrize("text", ["\ud800", "a\udcff|%", "\x00", "", "x" * 100_000, "é" * 600], ids=ascii)
def test_whatever_text_a_client_puts_where_a_limit_counts_it_is_counted(text: str) -> None:
    """JSON may hold half of a surrogate pair: no text that can be written, and none that may fail."""

    @limit("1/minute", by=lambda _: text)
    async def login(request: Request) -> PlainTextResponse:
        return PlainTextResponse("in")

    assert are_counted(Starlette(routes=[Route("/login", login)]), "/login")


def test_a_websocket_with_bad_credentials_is_closed_and_not_left_hanging() -> None:
    counts = Limiter(identity=IdentityOptions(jwt_secret=SECRET))

    @limit("1/minute", limiter=counts)
    async def talk(socket: WebSocket) -> None:
        await socket.accept()

    app = Starlette(routes=[WebSocketRoute("/talk", talk)])
    headers = {"Authorization": "Bearer no.token.this"}
    with (
        TestClient(app) as client,
        pytest.raises(WebSocketDisconnect) as closed,
        client.websocket_connect("/talk", headers=headers),
    ):
        pass
    assert closed.value.code == 1008
