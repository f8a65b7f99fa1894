"""Applications for real servers, whose workers import them: `gunicorn tests.web.apps:flask_app`."""

from __future__ import annotations

import os

import flask

from headgate import Limiter
from headgate.middleware.flask import Headgate

LIMIT = 40
RULES = [{"name": "everybody", "by": "global", "limit": f"{LIMIT}/hour"}]


def make_limiter() -> Limiter:
    # Patient, since a machine under test may be slow and a fallback would admit more.
    return Limiter(rules=RULES, store=os.environ.get("TEST_STORE", "memory://"), store_deadline=10)


def make_flask_app() -> flask.Flask:
    app = flask.Flask(__name__)
    headgate = Headgate(app, make_limiter())

    @app.get("/limited")
    @headgate.limit(f"{LIMIT // 2}/hour", by="global")
    def limited() -> str:
        return "limited"

    @app.get("/")
    def index() -> str:
        return "seen"

    return app


flask_app = make_flask_app()
