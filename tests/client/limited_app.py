"""A limited API under a real server: an ASGI application that asks `headgate.Limiter` and says what it says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from headgate import Limiter
from tests.servers.closing import Closing
from tests.servers.waiting import wait_for

HOST = "127.0.0.1"
PATIENCE_S = 20.0

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class LimitedApp:
    """`/limited?limit=10/second&key=k` is limited; `/script` answers what `script` holds, then 200.

    `answered` counts statuses, `bodies` are what was sent, `peers` the connections they came by.
    """

    def __init__(self) -> None:
        self.limiter = Limiter()
        self.script: list[tuple[int, dict[str, str], bytes]] = []
        self.answered: Counter[int] = Counter()
        self.bodies: list[bytes] = []
        self.peers: set[tuple[str, int]] = set()
        self.delay_s = 0.0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        self.peers.add(tuple(scope["client"]))
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        status, headers, content = self._answer(scope["path"], parse_qs(scope["query_string"].decode()))
        self.answered[status] += 1
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        raw.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        if path == "/limited":
            decision = self.limiter.check_limit(query["key"][0], query["limit"][0])
            if not decision:
                return decision.status, decision.headers(), json.dumps(decision.body()).encode()
            return 200, decision.headers(), b"here"
        if path == "/script" and self.script:
            return self.script.pop(0)
        return 200, {}, b"here"


class Served(Closing):
    """The application under uvicorn, on a thread of its own."""

    def __init__(self) -> None:
        self.app = LimitedApp()
        self._socket = socket.create_server((HOST, 0))
        config = uvicorn.Config(self.app, log_level="error", lifespan="off", access_log=False, http="h11", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        wait_for("uvicorn has started", lambda: self._server.started, PATIENCE_S)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._socket.getsockname()[1]}"

    def limited(self, limit: str, key: str = "k") -> str:
        return f"{self.url}/limited?limit={limit}&key={key}"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._socket.close()
        assert not self._thread.is_alive()
