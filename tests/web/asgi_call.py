"""One request to an ASGI application, with nothing between that would tidy its path."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tests.web.answers import CLIENT_IP, Got


async def call(
    app: Any, target: str, method: str = "GET", headers: Mapping[str, str] | None = None, ip: str = CLIENT_IP
) -> Got:
    path, _, query = target.partition("?")
    pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost"), *pairs],
        "client": (ip, 1234),
        "server": ("localhost", 80),
    }
    asked = [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        # A client that stays until it has its answer.
        return await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    told = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    # Servers cut it off, since applications need not.
    return Got(sent[0]["status"], told, b"" if method == "HEAD" else body)
