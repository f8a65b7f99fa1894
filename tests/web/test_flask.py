"""What is Flask's own: where limits may be put, and how functions are called."""

from __future__ import annotations

import json
from typing import Any

import flask
import pytest
from flask.views import MethodView

from headgate.errors import ConfigError
from headgate.middleware import Response
from headgate.middleware.flask import Headgate
from headgate.middleware.wsgi import HeadgateMiddleware
from tests.web.flask_shop import PER_IP, bare, left, limiter, shop, statuses

# --- where limits may be put


def test_a_limit_made_before_its_application_works_in_it() -> None:
    headgate = Headgate()

    @headgate.limit("1/minute")
    def view() -> str:
        return "seen"

    app = bare()
    app.add_url_rule("/", view_func=view)
    headgate.init_app(app)
    assert statuses(app, "/", 2) == [200, 429]


def test_one_extension_serves_several_applications_each_with_its_own_counters() -> None:
    headgate = Headgate(rules=[PER_IP | {"limit": "1/minute"}])
    for _ in range(2):
        app = bare()
        headgate.init_app(app)
        assert statuses(app, "/", 2) == [404, 429]


def test_a_second_extension_on_one_application_is_a_mistake() -> None:
    app, headgate = shop()
    with pytest.raises(ConfigError, match=r"shop: has a Headgate already"):
        headgate.init_app(app)


def test_a_limit_in_an_application_without_the_extension_says_what_to_do() -> None:
    app = bare()
    app.testing = True
    app.add_url_rule("/", view_func=Headgate().limit("1/minute")(lambda: "seen"))
    with pytest.raises(ConfigError, match=r"call init_app\(app\)"):
        app.test_client().get("/")


def test_an_async_view_is_limited() -> None:
    app, headgate = shop()

    @app.get("/")
    @headgate.limit("1/minute")
    async def view() -> str:
        return "seen"

    assert statuses(app, "/", 2) == [200, 429]


def test_the_views_of_a_blueprint_share_its_limit() -> None:
    app, headgate = shop()
    blueprint = flask.Blueprint("admin", __name__, url_prefix="/admin")
    headgate.limit("2/minute", by="ip")(blueprint)
    blueprint.add_url_rule("/a", "a", lambda: "a")
    blueprint.add_url_rule("/b", "b", lambda: "b")
    app.add_url_rule("/other", "other", lambda: "other")
    app.register_blueprint(blueprint)
    assert statuses(app, "/admin/a", 1) + statuses(app, "/admin/b", 2) == [200, 200, 429]
    assert statuses(app, "/other", 1) == [200]


def test_the_views_of_an_application_share_its_limit() -> None:
    app, headgate = shop()
    headgate.limit("2/minute")(app)
    assert statuses(app, "/", 3) == [404, 404, 429]


def test_one_method_of_a_class_is_limited() -> None:
    app, headgate = shop()

    class Item(MethodView):
        @headgate.limit("1/minute")
        def post(self) -> str:
            return "made"

        def get(self) -> str:
            return "shown"

    app.add_url_rule("/", view_func=Item.as_view("item"))
    assert [app.test_client().post("/").status_code for _ in range(2)] == [200, 429]
    assert statuses(app, "/", 2) == [200, 200]


def test_a_class_of_views_is_limited_whole() -> None:
    app, headgate = shop()

    @headgate.limit("2/minute")
    class Item(MethodView):
        def post(self) -> str:
            return "made"

        def get(self) -> str:
            return "shown"

    app.add_url_rule("/", view_func=Item.as_view("item"))
    assert [app.test_client().post("/").status_code, *statuses(app, "/", 2)] == [200, 200, 429]
    with pytest.raises(TypeError, match="dict is not a class of Flask views"):
        headgate.limit("2/minute")(dict)


def test_what_is_exempt_meets_neither_rules_nor_the_limits_around_it() -> None:
    app, headgate = shop(PER_IP | {"limit": "1/minute"})
    headgate.limit("1/minute")(app)
    blueprint = headgate.exempt(flask.Blueprint("open", __name__, url_prefix="/open"))
    blueprint.add_url_rule("/", "all", lambda: "all")

    @headgate.exempt
    class Status(MethodView):
        def get(self) -> str:
            return "well"

    app.add_url_rule("/status", view_func=Status.as_view("status"))
    app.register_blueprint(blueprint)
    app.add_url_rule("/counted", "counted", lambda: "counted")
    assert statuses(app, "/open/", 3) + statuses(app, "/status", 3) == [200] * 6
    assert statuses(app, "/counted", 2) == [200, 429]


def test_an_exempt_views_own_limit_counts_all_the_same() -> None:
    app, headgate = shop(PER_IP, identify=lambda: "42")

    @app.get("/")
    @headgate.exempt
    @headgate.limit("1/minute", name="own")
    def view() -> str:
        return str(flask.request.environ["headgate"].facts["user"])

    got = app.test_client().get("/")
    assert (got.text, got.headers["X-RateLimit-Remaining"]) == ("42", "0")
    assert statuses(app, "/", 1) == [429]


def test_places_with_one_name_share_their_counters() -> None:
    app, headgate = shop()
    for path in ("/a", "/b"):
        app.add_url_rule(path, path, headgate.limit("1/minute", name="both")(lambda: "seen"))
    assert statuses(app, "/a", 1) + statuses(app, "/b", 1) == [200, 429]


def test_a_mistake_in_a_limit_stops_the_program_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="often"):
        Headgate().limit("often")


# --- functions of the application's own


def test_a_function_is_called_with_the_request_or_with_nothing() -> None:
    app, headgate = shop()

    async def by_header(request: flask.Request) -> str | None:
        return request.headers.get("X-Team")

    app.add_url_rule("/a", "a", headgate.limit("1/minute", by=by_header)(lambda: "a"))
    app.add_url_rule("/b", "b", headgate.limit("1/minute", by=lambda: flask.request.args["team"])(lambda: "b"))
    assert statuses(app, "/a", 2, headers={"X-Team": "red"}) == [200, 429]
    assert statuses(app, "/a", 2) == [200, 429]
    assert statuses(app, "/b?team=red", 2) + statuses(app, "/b?team=blue", 1) == [200, 429, 200]


def test_identify_sees_the_session_and_names_facts() -> None:
    counts = limiter({"name": "pro", "match": {"tier": "pro"}, "by": "user", "limit": "1/minute"})
    app = bare()
    app.secret_key = "a secret"
    Headgate(app, counts, identify=lambda: {"user": flask.session.get("user"), "tier": "pro"})

    @app.get("/enter/<user>")
    def enter(user: str) -> str:
        flask.session["user"] = user
        return "in"

    client = app.test_client()
    client.get("/enter/42")
    assert client.get("/").status_code == 404
    assert client.get("/").status_code == 429
    assert left(counts, user="42", tier="pro") == 0


def test_an_async_identify_is_awaited() -> None:
    async def identify() -> str:
        return "42"

    counts = limiter(PER_IP | {"by": "user"})
    app = bare()
    Headgate(app, counts, identify=identify)
    app.test_client().get("/")
    assert left(counts, user="42") == 9


def test_cost_may_depend_on_the_request() -> None:
    app, headgate = shop(PER_IP, cost=lambda request: int(request.args["n"]))

    @app.get("/")
    @headgate.limit("100/minute", cost=lambda: 2 * int(flask.request.args["n"]))
    def view() -> list[int]:
        return [decision.remaining for decision, _ in flask.request.environ["headgate"].steps]

    assert app.test_client().get("/?n=4").json == [6, 92]


def test_when_is_shown_the_response_in_the_requests_context() -> None:
    shown: list[tuple[int, str, str]] = []

    def when(response: Response) -> bool:
        shown.append((response.status, response.headers["content-type"], flask.request.path))
        return False

    counts = limiter(PER_IP)
    app = bare()
    Headgate(app, counts, when=when)
    app.test_client().get("/nowhere")
    assert shown == [(404, "text/html; charset=utf-8", "/nowhere")]
    assert left(counts) == 10


def test_a_failure_that_flask_does_not_answer_is_settled_as_a_500() -> None:
    counts, seen = limiter(PER_IP), []
    app = bare()
    app.testing = True
    Headgate(app, counts, when=lambda response: seen.append(response.status))

    @app.get("/")
    def view() -> str:
        raise KeyError("lost")

    with pytest.raises(KeyError):
        app.test_client().get("/")
    assert seen == [500]
    assert left(counts) == 10


# --- one passage


def test_behind_the_wsgi_middleware_with_one_limiter_a_request_is_counted_once() -> None:
    counts = limiter(PER_IP)
    app = bare()
    headgate = Headgate(app, counts)
    app.add_url_rule("/", "x", headgate.limit("1/minute", by="ip")(lambda: "x"))
    app.wsgi_app = HeadgateMiddleware(app.wsgi_app, counts)  # type: ignore[method-assign]
    client = app.test_client()
    first, second = client.get("/"), client.get("/")
    assert (first.status_code, second.status_code) == (200, 429)
    assert first.headers.getlist("X-RateLimit-Remaining") == ["0"]
    assert json.loads(second.data)["error"] == "Rate limit exceeded"
    assert left(counts) == 9


def test_a_view_sees_what_was_decided() -> None:
    app, headgate = shop(PER_IP)

    @app.get("/")
    @headgate.limit("3/minute", by="ip")
    def view() -> dict[str, Any]:
        passage = flask.request.environ["headgate"]
        return {"remaining": passage.decision.remaining, "ip": passage.facts["ip"]}

    assert app.test_client().get("/").json == {"remaining": 2, "ip": "127.0.0.1"}


def test_a_header_of_the_applications_own_stays() -> None:
    app, _ = shop(PER_IP)
    app.add_url_rule("/", "x", lambda: ("x", {"x-ratelimit-limit": "mine"}))
    assert app.test_client().get("/").headers.getlist("X-RateLimit-Limit") == ["mine"]
