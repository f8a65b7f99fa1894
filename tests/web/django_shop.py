"""Small views and limiters for the tests of Django."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.test import Client

from headgate import Limiter
from headgate.testing import FakeClock

PER_IP: dict[str, Any] = {"name": "per-ip", "by": "ip", "limit": "10/minute"}
PER_USER: dict[str, Any] = {"name": "per-user", "by": "user", "limit": "10/minute"}


def limiter(*rules: dict[str, Any]) -> Limiter:
    return Limiter(rules=list(rules), clock=FakeClock())


def seen(_: HttpRequest) -> HttpResponse:
    return HttpResponse("seen")


async def aseen(_: HttpRequest) -> HttpResponse:
    return HttpResponse("seen")


def left(counts: Limiter, **facts: Any) -> int | None:
    return counts.peek(cost=0, **({"ip": "127.0.0.1"} | facts)).remaining


def statuses(address: str, times: int, **extra: Any) -> list[int]:
    return [Client(raise_request_exception=False).get(address, **extra).status_code for _ in range(times)]
