"""WebSockets and other upgrades through the gateway."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.gateway import bodies, wire
from tests.gateway.app import AppServer
from tests.gateway.conftest import Start
from tests.gateway.gate import Gate
from tests.gateway.strict import Head
from tests.gateway.upstream import Line, Upstream
from tests.integration.http_node import PATIENCE_S, eventually
from tests.proxies.tokens import bearer

LARGE = 8 * 2**20
MESSAGES = 500


def opened(gate: Gate, path: str = "/app/echo", headers: dict[str, str] | None = None) -> ClientConnection:
    url = f"ws://{gate.address('http')}{path}"
    return connect(url, additional_headers=headers, open_timeout=PATIENCE_S, max_size=2**26, proxy=None)


def test_what_is_said_is_heard_again(gate: Gate, app: AppServer) -> None:
    with opened(gate) as socket:
        assert socket.response is not None
        assert socket.response.headers["X-RateLimit-Limit"] == "100000000"
        for said in ("text", "ünïcode", "", b"binary\0", bodies.body(LARGE)):
            socket.send(said)
            assert socket.recv(PATIENCE_S) == said
        assert socket.ping().wait(PATIENCE_S)


@pytest.mark.parametrize("code", [1000, 1001, 3000, 4999])
def test_the_code_of_the_end_arrives_both_ways(gate: Gate, app: AppServer, code: int) -> None:
    with opened(gate) as socket:
        socket.send(f"bye {code}")
        with pytest.raises(ConnectionClosed) as end:
            socket.recv(PATIENCE_S)
        assert end.value.rcvd is not None
        assert (end.value.rcvd.code, end.value.rcvd.reason) == (code, "as you wish")
    with opened(gate) as socket:
        socket.close(code, "from here")
        assert socket.close_code == code


def test_both_may_speak_at_once(gate: Gate, app: AppServer) -> None:
    with opened(gate) as socket, ThreadPoolExecutor(1) as pool:
        said = [bodies.piece(number * 1000, 10_000) for number in range(MESSAGES)]
        sending = pool.submit(lambda: list(map(socket.send, said)))
        assert [socket.recv(PATIENCE_S) for _ in said] == said
        sending.result()


def test_many_at_once_do_not_hear_each_other(gate: Gate, app: AppServer) -> None:
    def talk(number: int) -> bool:
        with opened(gate) as socket:
            for turn in range(5):
                socket.send(f"{number}/{turn}")
                if socket.recv(PATIENCE_S) != f"{number}/{turn}":
                    return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(talk, range(40)))


def test_a_refused_upgrade_is_an_answer_like_any_other(gate: Gate, upstream: Upstream) -> None:
    headers = bearer("chatty")
    shown = [f"{name}: {value}" for name, value in headers.items()]
    for _ in range(3):
        assert gate.get("/few/x", *shown).status == 200
    upstream.begin()
    with pytest.raises(InvalidStatus) as refused:
        opened(gate, "/few/chat", headers)
    assert refused.value.response.status_code == 429
    assert upstream.raw() == b""


def test_an_upstream_that_does_not_upgrade_answers_as_usual(gate: Gate, upstream: Upstream) -> None:
    with pytest.raises(InvalidStatus) as refused:
        opened(gate, "/plain")
    assert refused.value.response.status_code == 200
    head = upstream.only.head
    assert (head.value("upgrade"), (head.value("connection") or "").lower()) == ("websocket", "upgrade")


def test_a_tunnel_carries_bytes_as_they_are_until_each_side_is_done(gate: Gate, upstream: Upstream) -> None:
    def play(line: Line, head: Head) -> None:
        assert head.value("upgrade") == "own/1"
        line.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: own/1\r\nConnection: upgrade\r\n\r\nfirst")
        while said := line.stream.read1(65_536):
            line.send(said.upper())
        line.close()

    upstream.play = play
    client = gate.wire()
    client.send(wire.request("GET", "/", "Upgrade: own/1", "Connection: upgrade"))
    assert client.head().status == 101
    assert client.stream.read(5) == b"first"
    client.send(b"GET / HTTP/1.1\r\n\r\n\0\xff")
    assert client.stream.read(20) == b"GET / HTTP/1.1\r\n\r\n\0\xff"
    client.socket.shutdown(1)
    assert client.has_ended()


@pytest.mark.parametrize(
    "fields",
    [
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk"),
        ("Upgrade: h2c, own/1", "Connection: upgrade"),
        ("Upgrade: H2C", "Connection: upgrade"),
        ("Upgrade: h2c", "Upgrade: own/1", "Connection: upgrade"),
        ("Upgrade: own/1", "Upgrade: h2c", "Connection: upgrade"),
    ],
    ids=["h2c", "among others", "in capitals", "before another", "after another"],
)
def test_an_upgrade_to_http2_is_never_passed_on(gate: Gate, upstream: Upstream, fields: tuple[str, ...]) -> None:
    """Behind it requests would go to the upstream that nobody counts."""
    gate.get("/", *fields)
    for message in upstream.messages:
        assert "h2c" not in str(message.head).lower()
        assert message.head.value("http2-settings") is None


@pytest.mark.parametrize("protocol", ["TLS/1.2, HTTP/1.1", "HTTP/2.0"])
def test_nor_is_one_to_another_way_of_sending_requests(gate: Gate, upstream: Upstream, protocol: str) -> None:
    gate.get("/", f"Upgrade: {protocol}", "Connection: upgrade")
    assert all(message.head.value("upgrade") is None for message in upstream.messages)


def test_an_upgrade_that_connection_does_not_name_is_none(gate: Gate, upstream: Upstream) -> None:
    gate.get("/", "Upgrade: own/1")
    assert all(message.head.value("upgrade") is None for message in upstream.messages)


def test_a_client_that_leaves_ends_the_tunnel(gate: Gate, upstream: Upstream) -> None:
    ended = threading.Event()

    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: own/1\r\nConnection: upgrade\r\n\r\n")
        if line.heard_the_end():
            ended.set()

    upstream.play = play
    with gate.wire() as client:
        client.send(wire.request("GET", "/", "Upgrade: own/1", "Connection: upgrade"))
        assert client.head().status == 101
    assert ended.wait(PATIENCE_S)
    eventually(lambda: gate.busy() == 0)


def test_a_tunnel_that_is_open_has_until_the_drains_end(start: Start, app: AppServer) -> None:
    gate = start(app.url, "--drain-timeout-s", "1")
    with opened(gate) as socket:
        socket.send("before")
        assert socket.recv(PATIENCE_S) == "before"
        gate.process.terminate()
        with pytest.raises(ConnectionClosed):
            socket.recv(PATIENCE_S)
    gate.process.wait(PATIENCE_S)
