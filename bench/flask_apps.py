"""The same application for Flask, bare and behind each limiter. No limit ever refuses."""

from typing import Any

from flask import Flask
from flask_limiter import Limiter as FlaskLimiter
from flask_limiter.util import get_remote_address

from bench.asgi_apps import ANSWER, ROOMY
from bench.rule_sets import PATH
from headgate import Limiter
from headgate.middleware.flask import Headgate


def flask_bare() -> Flask:
    app = Flask("bare")

    @app.get(PATH)
    def search() -> dict[str, Any]:
        return ANSWER

    return app


def flask_headgate_rules(limiter: Limiter) -> Flask:
    app = flask_bare()
    Headgate(app, limiter)
    return app


def flask_headgate_decorated() -> Flask:
    app = Flask("decorated")
    headgate = Headgate(app, Limiter())

    @app.get(PATH)
    @headgate.limit(ROOMY, by="ip")
    def search() -> dict[str, Any]:
        return ANSWER

    return app


def flask_limiter(*, headers: bool = False) -> Flask:
    app = Flask("limited")
    limiter = FlaskLimiter(get_remote_address, app=app, storage_uri="memory://", headers_enabled=headers)

    @app.get(PATH)
    @limiter.limit(ROOMY)
    def search() -> dict[str, Any]:
        return ANSWER

    return app
