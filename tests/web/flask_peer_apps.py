"""The same Flask application behind Headgate and behind Flask-Limiter, for `beside_peers`."""

from __future__ import annotations

import os
from typing import Any

import flask_limiter
from flask import Flask, request

from headgate import Limiter
from headgate.middleware.flask import Headgate
from tests.web.peer_apps import MEMORY, OWN, PLENTY, SHARED, user_of
from tests.web.servers import wanted

_store: str = wanted().get("store", MEMORY)


def _new_flask(name: str) -> Flask:
    app = Flask(name)

    @app.get("/ready")
    def ready() -> dict[str, Any]:
        return {"pid": os.getpid()}

    return app


def flask_headgate() -> Flask:
    app = _new_flask("headgate")
    headgate = Headgate(app, Limiter(store=_store), identify=user_of)

    @app.get("/items")
    @headgate.limit(PLENTY)
    def items() -> dict[str, Any]:
        return {}

    @app.get("/shared")
    @headgate.limit(f"{SHARED}/day", by="global")
    @headgate.limit(f"{OWN}/day")
    def shared() -> dict[str, Any]:
        return {}

    return app


def flask_limiter_app() -> Flask:
    app = _new_flask("flask-limiter")
    limiter = flask_limiter.Limiter(
        lambda: request.headers.get("x-user", "nobody"),
        app=app,
        storage_uri=_store,
        in_memory_fallback_enabled=_store != MEMORY,
    )
    everyone = limiter.shared_limit(f"{SHARED}/day", scope="everyone", key_func=lambda: "everyone")

    @app.get("/items")
    @limiter.limit(PLENTY)
    def items() -> dict[str, Any]:
        return {}

    @app.get("/shared")
    @limiter.limit(f"{OWN}/day")
    @everyone
    def shared() -> dict[str, Any]:
        return {}

    return app
