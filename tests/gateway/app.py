"""A real application under a real server, for what upstreams written by hand cannot speak for."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.gateway import bodies
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent
START_S = 60.0
PIECE_BYTES = 65_536
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await _echo(receive, send)
    elif scope["type"] == "http":
        await {"/app/bytes": _bytes, "/app/events": _events}.get(scope["path"], _seen)(scope, receive, send)


async def _seen(scope: Scope, receive: Receive, send: Send) -> None:
    """Tells what it was sent, and answers with the status it was asked for."""
    digest, size, more = hashlib.sha256(), 0, True
    while more:
        event = await receive()
        digest.update(event.get("body", b""))
        size += len(event.get("body", b""))
        more = event.get("more_body", False)
    fields = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    told = {
        "method": scope["method"],
        "path": scope["raw_path"].decode("ascii"),
        "version": scope["http_version"],
        "fields": fields,
        "size": size,
        "digest": digest.hexdigest(),
    }
    await _start(send, (b"content-type", b"application/json"))
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


async def _bytes(scope: Scope, receive: Receive, send: Send) -> None:
    size = int(parse_qs(scope["query_string"].decode())["size"][0])
    await _start(send, (b"content-type", b"application/octet-stream"))
    for at in range(0, size, PIECE_BYTES):
        part = bodies.piece(at, min(PIECE_BYTES, size - at))
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


async def _events(scope: Scope, receive: Receive, send: Send) -> None:
    """One event for each byte of the request's body, sent as soon as the byte is here."""
    await _start(send, (b"content-type", b"text/event-stream"))
    more = True
    while more:
        event = await receive()
        for byte in event.get("body", b""):
            await send({"type": "http.response.body", "body": b"data: %c\n\n" % byte, "more_body": True})
        more = event.get("more_body", False)
    await send({"type": "http.response.body"})


async def _start(send: Send, *fields: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": list(fields)})


async def _echo(receive: Receive, send: Send) -> None:
    """Says everything again; `bye CODE` ends the connection with that code."""
    await receive()
    await send({"type": "websocket.accept"})
    while (event := await receive())["type"] == "websocket.receive":
        said = event.get("text")
        if said is not None and said.startswith("bye "):
            await send({"type": "websocket.close", "code": int(said[4:]), "reason": "as you wish"})
            return
        await send({"type": "websocket.send", "text": said, "bytes": event.get("bytes")})


class AppServer(Closing):
    """The application under uvicorn, or with HTTP/2 in plain text under hypercorn."""

    def __init__(self, folder: Path, http2: bool = False) -> None:
        self.port = free_port()
        self.url = f"{'h2c' if http2 else 'http'}://{HOST}:{self.port}"
        name = "tests.gateway.app:application"
        uvicorn = ["uvicorn", name, "--port", str(self.port), "--ws-max-size", str(2**26), "--lifespan", "off"]
        hypercorn = ["hypercorn", name, "--bind", f"{HOST}:{self.port}"]
        words = hypercorn if http2 else [*uvicorn, "--log-level", "warning", "--app-dir", str(ROOT)]
        self._process = Process([sys.executable, "-m", *words], folder, self._environment())
        wait_for("the application", self._is_up, START_S, self._process.log_tail)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}

    def _is_up(self) -> bool:
        assert self._process.exit_code is None, self._process.log_tail()
        socket.create_connection((HOST, self.port), 5).close()
        return True

    def close(self) -> None:
        self._process.kill()
