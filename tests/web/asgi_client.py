"""Asks an ASGI application in this process, as a client at an address of one's choice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from headgate.testing import FakeClock
from tests.integration.tokens import NOW_S

STRANGER = "203.0.113.7"


def ask(app: Any, *requests: str, ip: str = STRANGER, headers: dict[str, str] | None = None) -> list[httpx.Response]:
    """`GET /path` or `/path` each, one after the other."""

    async def all_of_them() -> list[httpx.Response]:
        async with client(app, ip) as asking:
            return [await asking.request(*_split(request), headers=headers) for request in requests]

    return asyncio.run(all_of_them())


def statuses(app: Any, *requests: str, ip: str = STRANGER, headers: dict[str, str] | None = None) -> list[int]:
    return [response.status_code for response in ask(app, *requests, ip=ip, headers=headers)]


def client(app: Any, ip: str = STRANGER) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(ip, 50_000))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


def rule(name: str, by: str | Sequence[str], limit: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "by": by, "limit": limit, **more}


def frozen() -> FakeClock:
    return FakeClock(start=float(NOW_S))


def _split(request: str) -> tuple[str, str]:
    method, _, path = request.rpartition(" ")
    return method or "GET", path
