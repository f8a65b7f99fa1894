"""Clients that hold connections and do not use them: they end, and keep nobody else out."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headgate.control import web_protocol, web_server
from headgate.control.web_server import WebServer
from tests.api.plane import DEADLINE_S

FEW = 8
LONG_ANSWER = 64 * 1024 * 1024


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/long":
        for _ in range(64):
            await send({"type": "http.response.body", "body": b"x" * (LONG_ANSWER // 64), "more_body": True})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(web_server, "_CONNECTIONS_MAX", FEW)
    server = WebServer(application, listen="127.0.0.1:0")
    server.start()
    yield int(server.address.rpartition(":")[2])
    server.stop()


def connected(port: int, *sent: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    for part in sent:
        made.sendall(part)
    return made


def test_idle_connections_keep_nobody_out(port: int) -> None:
    held = [connected(port, b"GET / HTTP/1.1\r\nHost:") for _ in range(3 * FEW)]
    for _ in range(3):
        assert httpx.get(f"http://127.0.0.1:{port}/", timeout=DEADLINE_S).text == "ok"
    for one in held:
        one.close()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow:", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost:"],
    ids=["nothing", "half a head", "half of the next head"],
)
def test_the_rest_of_a_head_is_not_waited_for_for_ever(port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_protocol, "HEAD_S", 0.2)
    with connected(port, sent) as held:
        # A byte now and then makes no difference.
        while not has_ended(held):
            pass


def has_ended(held: socket.socket) -> bool:
    """Whether the other side has; else it is sent one byte more."""
    held.settimeout(0.05)
    try:
        return held.recv(65536) == b""
    except TimeoutError:
        return _cannot_send(held)
    except OSError:
        return True


def _cannot_send(held: socket.socket) -> bool:
    try:
        held.sendall(b"a")
    except OSError:
        return True
    return False


def test_a_client_that_reads_nothing_of_its_answer_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_protocol, "READ_S", 0.2)
    ended = threading.Event()

    def end(protocol: Any) -> None:
        protocol.transport.abort()
        ended.set()

    monkeypatch.setattr(web_protocol.PatientProtocol, "_end", end)
    with connected(port, b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n") as held:
        assert ended.wait(DEADLINE_S)
        size = 0
        with contextlib.suppress(ConnectionError):
            while part := held.recv(1024 * 1024):
                size += len(part)
        assert 0 < size < LONG_ANSWER
