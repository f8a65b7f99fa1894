"""What the API answers is on its way at once."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.control.web_server import WebServer


async def in_two_pieces(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    await send({"type": "http.response.body", "body": b"b"})


def test_an_answer_in_pieces_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm on, the second piece would wait for the first to be acknowledged, 40 ms."""
    accept = socket.socket.accept

    def watched(listening: socket.socket) -> Any:
        accepted = accept(listening)
        connections.append(accepted[0])
        return accepted

    connections: list[socket.socket] = []
    monkeypatch.setattr(socket.socket, "accept", watched)
    server = WebServer(in_two_pieces)
    server.start()
    try:
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            told = b""
            while not told.endswith(b"ab"):
                told += line.recv(4096)
            switched_off = [bool(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) for one in connections]
    finally:
        server.stop()
    assert switched_off == [True]
