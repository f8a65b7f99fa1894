"""The application of `doors` in Flask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import flask

from headgate import Limiter
from headgate.middleware.flask import Headgate
from tests.web.answers import CLIENT_IP, ORIGIN, PIECES, Calls, Got


@dataclass
class FlaskDoor:
    app: flask.Flask

    def ask(
        self,
        path: str = "/api/items",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        ip: str = CLIENT_IP,
    ) -> Got:
        base = {"REMOTE_ADDR": ip}
        answer = self.app.test_client().open(
            ORIGIN + path, method=method, headers=dict(headers or {}), environ_base=base
        )
        try:
            return Got(answer.status_code, {name.lower(): value for name, value in answer.headers}, answer.data)
        finally:
            answer.close()


def make_flask(
    limiter: Limiter, calls: Calls | None = None, *, view_limit: str = "1/minute", **options: Any
) -> FlaskDoor:
    app = flask.Flask("shop", static_folder=None)
    headgate = Headgate(app, limiter, **options)
    calls = calls or Calls()

    @app.route("/api/", defaults={"rest": ""})
    @app.route("/api/<path:rest>")
    def api(rest: str) -> str:
        calls.paths.append(flask.request.path)
        return rest

    @app.route("/healthz")
    def healthz() -> str:
        return "well"

    @app.route("/answer/<int:status>")
    def answer(status: int) -> tuple[str, int]:
        return "", status

    @app.route("/fails")
    def fails() -> str:
        raise RuntimeError("the application fails")

    @app.route("/stream")
    def stream() -> flask.Response:
        return flask.Response(iter(PIECES))

    @app.route("/limited")
    @headgate.limit(view_limit, by="ip")
    def limited() -> str:
        return "limited"

    @app.route("/login/<int:status>")
    @headgate.limit("2/minute", by="ip", when=lambda response: response.status >= 400)
    def login(status: int) -> tuple[str, int]:
        return "", status

    @limiter.limit("1/minute")
    def work() -> str:
        return "worked"

    @app.route("/met")
    def met() -> str:
        return work()

    @app.route("/free")
    @headgate.exempt
    def free() -> str:
        return "free"

    return FlaskDoor(app)
