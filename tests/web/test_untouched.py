"""What the middleware must not touch: WebSockets, streams, large bodies, background tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.servers.ports import HOST
from tests.servers.waiting import wait_for
from tests.web.application import EVENTS
from tests.web.servers import ASGI_SERVERS, WebServer

RULES: list[dict[str, Any]] = [
    {"name": "per-user", "by": "user", "limit": "1000000/day"},
    {"name": "sockets", "match": {"endpoint": "/ws"}, "by": "ip", "limit": "1/day"},
]
LARGE_BYTES = 8_000_000
PIECE_BYTES = 65_536
TIMEOUT_S = 20


@pytest.fixture(scope="module", params=[name for name in ASGI_SERVERS if name != "gunicorn-asgi"])
def web(request: pytest.FixtureRequest) -> Iterator[WebServer]:
    with WebServer(request.param, "tests.web.application:asgi", wanted={"rules": RULES}) as web:
        yield web


@pytest.fixture
def client(web: WebServer) -> Iterator[httpx.Client]:
    with web.client() as client:
        yield client


def test_websockets_pass_untouched_even_where_a_rule_names_their_path(web: WebServer) -> None:
    for _ in range(3):
        with connect(f"ws://{HOST}:{web.port}/ws", open_timeout=TIMEOUT_S) as websocket:
            for text in ("a", "b"):
                websocket.send(text)
                assert websocket.recv(TIMEOUT_S) == text


def test_a_stream_arrives_piece_by_piece_with_its_headers_first(client: httpx.Client) -> None:
    """Each event is sent a moment after the one before: whoever held them back would hand over all at once."""
    with client.stream("GET", "/events") as response:
        assert response.status_code == 200
        assert "x-ratelimit-limit" in response.headers
        pieces = [piece for piece in response.iter_raw() if piece]
    assert b"".join(pieces) == b"".join(b"data: %d\n\n" % number for number in range(EVENTS))
    assert len(pieces) > 1


def test_large_bodies_go_through_both_ways(client: httpx.Client) -> None:
    def body() -> Iterator[bytes]:
        for start in range(0, LARGE_BYTES, PIECE_BYTES):
            yield b"x" * min(PIECE_BYTES, LARGE_BYTES - start)

    response = client.post("/large", content=body())
    assert response.headers["x-received-bytes"] == str(LARGE_BYTES)
    assert len(response.content) == LARGE_BYTES


def test_background_tasks_run_after_the_answer(client: httpx.Client) -> None:
    before = client.get("/probe").json()["background"]
    assert client.get("/background").status_code == 200
    wait_for("the background task", lambda: client.get("/probe").json()["background"] == before + 1, TIMEOUT_S)
