"""Whose error handlers win in Flask."""

from __future__ import annotations

from typing import Any

import flask
import pytest
from werkzeug.exceptions import Forbidden, HTTPException

from headgate import Limiter, RateLimited
from headgate.middleware.flask import Headgate, Refused
from tests.web.flask_shop import PER_IP, bare, limiter, shop, statuses


@pytest.mark.parametrize("kind", [429, RateLimited, HTTPException, Refused])
def test_the_applications_own_handler_answers_and_the_headers_stay(kind: Any) -> None:
    counts = limiter(PER_IP | {"limit": "1/minute"})
    app = bare()
    app.register_error_handler(kind, lambda error: (f"slow down: {error.retry_after}", 418))
    headgate = Headgate(app, counts)
    app.add_url_rule("/rule", "rule", lambda: "x")
    app.add_url_rule("/view", "view", headgate.limit("1/minute", limiter=Limiter())(lambda: "x"))
    app.add_url_rule("/met", "met", counts.limit("1/minute")(lambda: "x"))
    for path in ("/rule", "/view", "/met"):
        counts.reset(ip="127.0.0.1")
        assert statuses(app, path, 1) == [200]
        if path != "/rule":
            counts.reset(ip="127.0.0.1")
        got = app.test_client().get(path)
        assert (got.status_code, got.text[:10]) == (418, "slow down:"), path
        assert int(got.headers["Retry-After"]) >= 60


def test_a_blocks_status_finds_the_handler_of_that_status() -> None:
    app, _ = shop({"name": "out", "match": {"ip": "127.0.0.1"}, "action": "block"})

    @app.errorhandler(403)
    def forbidden(error: HTTPException) -> tuple[str, int]:
        assert isinstance(error, Forbidden)
        assert isinstance(error, RateLimited)
        return "not you", 403

    assert app.test_client().get("/").text == "not you"


def test_a_handler_of_everything_does_not_make_a_refusal_an_error() -> None:
    app, _ = shop(PER_IP | {"limit": "1/minute"})
    app.register_error_handler(Exception, lambda _: ("oops", 500))
    app.config["TRAP_HTTP_EXCEPTIONS"] = True
    app.add_url_rule("/", "x", lambda: "x")
    assert statuses(app, "/", 2) == [200, 429]


def test_a_blueprints_handler_sees_its_own_refusals() -> None:
    app, headgate = shop()
    blueprint = flask.Blueprint("pages", __name__)
    blueprint.add_url_rule("/", "page", headgate.limit("1/minute")(lambda: "page"))
    blueprint.register_error_handler(429, lambda error: (f"<p>{error.description}</p>", 429))
    app.register_blueprint(blueprint)
    assert [app.test_client().get("/").text for _ in range(2)] == ["page", "<p>Rate limit exceeded</p>"]
