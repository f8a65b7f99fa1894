"""Small Flask applications for the tests."""

from __future__ import annotations

from typing import Any

import flask

from headgate import Limiter
from headgate.middleware.flask import Headgate
from headgate.testing import FakeClock

PER_IP: dict[str, Any] = {"name": "per-ip", "by": "ip", "limit": "10/minute"}


def limiter(*rules: dict[str, Any]) -> Limiter:
    return Limiter(rules=list(rules), clock=FakeClock())


def bare() -> flask.Flask:
    return flask.Flask("shop", static_folder=None)


def shop(*rules: dict[str, Any], **options: Any) -> tuple[flask.Flask, Headgate]:
    app = bare()
    return app, Headgate(app, limiter(*rules), **options)


def statuses(app: flask.Flask, path: str, times: int, **options: Any) -> list[int]:
    return [app.test_client().get(path, **options).status_code for _ in range(times)]


def left(limiter: Limiter, **facts: Any) -> int | None:
    return limiter.peek(cost=0, **({"ip": "127.0.0.1"} | facts)).remaining
