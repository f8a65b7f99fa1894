"""Applications that fail and clients that go away: each request is counted once, and nothing is left behind."""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.servers.ports import HOST
from tests.servers.server import Server
from tests.servers.waiting import wait_for
from tests.web.load import ask_at_once
from tests.web.servers import ASGI_SERVERS, WebServer

LIMIT = 1_000
RULES = [{"name": "per-user", "by": "user", "limit": f"{LIMIT}/day"}]
PATIENT_S = 5.0
TIMEOUT_S = 20
LEAVING = 5
GROWTH_BYTES_MAX = 20_000_000


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module", params=ASGI_SERVERS)
def web(request: pytest.FixtureRequest, store: Server) -> Iterator[WebServer]:
    store.command("FLUSHALL")
    wanted = {"rules": RULES, "store": store.url, "store_deadline": PATIENT_S}
    with WebServer(request.param, "tests.web.application:asgi", wanted=wanted) as web:
        yield web


@pytest.fixture
def client(web: WebServer) -> Iterator[httpx.Client]:
    with web.client() as client:
        yield client


def probe(client: httpx.Client) -> dict[str, Any]:
    told: dict[str, Any] = client.get("/probe?collect").json()
    return told


def used(client: httpx.Client, user: str) -> int:
    """How much is spent, this question included."""
    response = client.get("/items", headers={"x-user": user})
    return LIMIT - int(response.headers["x-ratelimit-remaining"])


def has_entered(client: httpx.Client, before: int) -> bool:
    return bool(probe(client)["entered"] > before)


def wait_until_left(client: httpx.Client, before: dict[str, Any], times: int) -> None:
    """Until the application was left as often as it was entered, by that many requests."""

    def all_left() -> bool:
        told = probe(client)
        entered: int = told["entered"] - before["entered"]
        return entered == times and told["left"] == told["entered"] and told["passages"] == 0

    wait_for("all requests have ended", all_left, TIMEOUT_S, lambda: str(probe(client)))


def request(path: str, user: str, more: str = "", body: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: test\r\nX-User: {user}\r\n{more}\r\n".encode() + body


def go_away(web: WebServer, client: httpx.Client, sent: bytes, wait: Callable[[socket.socket], object]) -> None:
    """Several clients, one after the other, each of which hangs up once the application is busy with it."""
    before = probe(client)
    for number in range(LEAVING):
        with socket.create_connection((HOST, web.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(sent)
            entered = before["entered"] + number
            wait_for("it is under way", functools.partial(has_entered, client, entered), TIMEOUT_S)
            wait(connection)
    wait_until_left(client, before, LEAVING)


def read_some(connection: socket.socket) -> None:
    got = b""
    while b"more\n" not in got:
        got += connection.recv(4096)
    assert b"x-ratelimit-remaining" in got.lower()


def test_an_applications_own_error_is_its_own_and_is_counted_once(web: WebServer, client: httpx.Client) -> None:
    for _ in range(LEAVING):
        # A server may hang up after such an answer.
        with web.client() as other:
            assert other.get("/error", headers={"x-user": "breaks"}).status_code == 500
    assert used(client, "breaks") == LEAVING + 1
    assert probe(client)["passages"] == 0


@pytest.mark.parametrize(
    ("user", "sent", "wait"),
    [
        ("before the answer", request("/slow", "before the answer"), lambda _: None),
        ("in the middle of the answer", request("/endless", "in the middle of the answer"), read_some),
        (
            "in the middle of the body",
            request("/large", "in the middle of the body", "Content-Length: 1000000\r\n", b"x" * 1_000),
            lambda _: None,
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_clients_that_go_away_are_counted_once_and_leave_nothing(
    web: WebServer, client: httpx.Client, user: str, sent: bytes, wait: Callable[[socket.socket], object]
) -> None:
    go_away(web, client, sent, wait)
    assert used(client, user) == LEAVING + 1


def test_tasks_and_memory_do_not_grow_with_requests(web: WebServer, client: httpx.Client) -> None:
    users = [f"user-{number % 10}" for number in range(200)]
    idle = probe(client)

    def is_idle() -> dict[str, Any] | None:
        """A server ends its own tasks a moment after its clients have gone."""
        told = probe(client)
        return told if told["tasks"] <= idle["tasks"] and told["passages"] == 0 else None

    sizes = []
    for _ in range(2):
        ask_at_once(web, "/items", users, concurrent=8)
        told = wait_for("the server is idle again", is_idle, TIMEOUT_S, lambda: str(probe(client)))
        sizes.append(told["resident_bytes"])
    assert sizes[-1] - sizes[0] < GROWTH_BYTES_MAX, sizes
