"""What is Django's own: where limits may be put, what works without the middleware."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View

from headgate import Limiter
from headgate.middleware import Response, asgi
from headgate.middleware.django import exempt, limit
from tests.servers.server import Server
from tests.web.asgi_call import call
from tests.web.django_project import site
from tests.web.django_shop import PER_IP, aseen, left, limiter, seen, statuses

PATIENT_S = 30.0

# --- where limits may be put


@method_decorator(limit("1/minute", name="whole class"), name="dispatch")
class Whole(View):
    def get(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse("shown")


@method_decorator(limit("1/minute", name="whole async class"), name="dispatch")
class AsyncWhole(View):
    async def get(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse("shown")


class OneMethod(View):
    @limit("1/minute", name="one method")
    def post(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse("made")

    def get(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse("shown")


@pytest.mark.parametrize("view", [Whole, AsyncWhole])
def test_a_class_of_views_is_limited(view: type[View]) -> None:
    with site([path("", view.as_view())], {"limiter": limiter()}):
        got = [asyncio.run(call(get_asgi_application(), "/")) for _ in range(2)]
        assert [(answer.status, answer.body) for answer in got[:1]] == [(200, b"shown")]
        assert got[1].status == 429
        # Behind WSGI as well.
        assert statuses("/", 2) == [200, 429]


def test_one_method_of_a_class_is_limited() -> None:
    with site([path("", OneMethod.as_view())], {"limiter": limiter()}):
        assert [Client().post("/").status_code for _ in range(2)] == [200, 429]
        assert statuses("/", 2) == [200, 200]


def test_on_a_class_itself_the_decorator_says_how() -> None:
    with pytest.raises(TypeError, match=r"method_decorator"):
        limit("1/minute")(Whole)


def test_a_function_that_is_no_view_is_told_so() -> None:
    with pytest.raises(TypeError, match=r"Limiter\.limit"):
        limit("1/minute")(lambda: None)()


def test_one_limit_on_two_views_is_one() -> None:
    both = limit("1/minute", by="ip")
    with site([path("a", both(seen)), path("b", both(seen))], {"limiter": limiter()}):
        assert statuses("/a", 1) + statuses("/b", 1) == [200, 429]


def test_two_limits_on_one_view_are_one_passage() -> None:
    counts = limiter(PER_IP)
    narrow, wide = limit("1/minute", by="ip", name="narrow"), limit("5/minute", by="ip", name="wide")
    with site([path("", wide(narrow(seen))), path("wide", wide(seen))], {"limiter": counts}):
        assert statuses("/", 3) == [200, 429, 429]
        # What the narrow one refused is given back by the wide one and the rule.
        assert statuses("/wide", 5) == [200] * 4 + [429]
    assert left(counts) == 5


async def by_header(request: HttpRequest) -> str | None:
    return request.headers.get("X-Team")


def test_an_async_view_may_be_counted_by_an_async_function() -> None:
    with site([path("", limit("1/minute", by=by_header)(aseen))], {"limiter": limiter()}):
        asked = [asyncio.run(call(get_asgi_application(), "/", headers={"X-Team": t})).status for t in "aab"]
    assert asked == [200, 429, 200]


@method_decorator(exempt, name="dispatch")
class Free(View):
    def get(self, _: HttpRequest) -> HttpResponse:
        return HttpResponse("free")


def test_an_exempt_class_meets_no_rule() -> None:
    with site([path("", Free.as_view()), path("other", seen)], {"limiter": limiter(PER_IP | {"limit": "1/minute"})}):
        assert statuses("/", 3) + statuses("/other", 2) == [200, 200, 200, 200, 429]


def test_a_limit_inside_an_exempt_path_is_answered_as_every_refusal() -> None:
    counts = limiter(PER_IP)
    work = counts.limit("1/minute")(lambda: "worked")
    patterns = [path("met", lambda _: HttpResponse(work())), path("own", limit("1/minute", by="ip")(seen))]
    with site(patterns, {"limiter": counts, "exempt": ["/met", "/own"]}):
        for address in ("/met", "/own"):
            assert Client().get(address).status_code == 200
            refused = Client().get(address)
            assert (refused.status_code, refused.headers["X-RateLimit-Limit"]) == (429, "1")
    assert left(counts) == 10


def test_a_view_sees_what_was_decided() -> None:
    def view(request: Any) -> HttpResponse:
        return HttpResponse(f"{request.headgate.decision.remaining} {request.headgate.facts['ip']}")

    with site([path("", limit("3/minute", by="ip")(view))], {"limiter": limiter(PER_IP)}):
        assert Client().get("/").content == b"2 127.0.0.1"


# --- without the middleware


def fails_with(error: Exception) -> Any:
    def view(_: HttpRequest) -> HttpResponse:
        raise error

    return view


@pytest.mark.parametrize("form", [seen, aseen])
def test_the_decorator_works_alone(form: Any) -> None:
    with site([path("", limit("1/minute", by="ip")(form))], {"limiter": limiter(), "jitter": 0}, []):
        got = [asyncio.run(call(get_asgi_application(), "/")) for _ in range(2)]
    assert [(answer.status, answer.headers.get("retry-after")) for answer in got] == [(200, None), (429, "60")]
    assert got[0].headers["x-ratelimit-remaining"] == "0"


def test_the_decorator_works_without_any_setting() -> None:
    with site([path("", limit("1/minute", by="ip")(seen))], None, []):
        assert statuses("/", 2) == [200, 429]


def test_the_decorator_alone_counts_only_what_it_is_asked_to() -> None:
    shown: list[int] = []

    def when(response: Response) -> bool:
        shown.append(response.status)
        return response.status == 403

    failing = limit("2/minute", by="ip", when=when)
    errors = [Http404(), KeyError("lost"), PermissionDenied(), PermissionDenied()]
    patterns = [path(str(nth), failing(fails_with(error))) for nth, error in enumerate(errors)]
    with site(patterns, {"limiter": limiter()}, []):
        assert [status for nth in range(4) for status in statuses(f"/{nth}", 1)] == [404, 500, 403, 403]
        assert statuses("/0", 1) == [429]
    assert shown == [404, 500, 403, 403]


# --- under other middleware, over a store


def test_inside_the_asgi_middleware_with_one_limiter_a_request_is_counted_once() -> None:
    counts = limiter(PER_IP)
    with site([path("", limit("5/minute", by="ip")(aseen))], {"limiter": counts}):
        app: Any = get_asgi_application()
        got = asyncio.run(call(asgi.HeadgateMiddleware(app, counts), "/", ip="127.0.0.1"))
    assert got.headers["x-ratelimit-limit"] == "5"
    assert left(counts) == 9


def test_a_store_that_is_silent_does_not_hold_up_the_event_loop() -> None:
    with Server() as server:
        # It waits far longer than the test does: only a loop that goes on can end the silence.
        counts = Limiter(rules=[PER_IP], store=server.url, store_deadline=PATIENT_S, on_store_failure="closed")
        view = limit("5/minute", by="ip", name="silent")(aseen)

        async def ask() -> Any:
            app = get_asgi_application()
            assert (await call(app, "/")).status == 200
            server.stop_signal()
            asked = asyncio.create_task(call(app, "/"))
            await asyncio.sleep(0.1)
            assert not asked.done()
            server.cont()
            return await asked

        with site([path("", view)], {"limiter": counts}):
            got = asyncio.run(ask())
        assert (got.status, got.headers["x-ratelimit-remaining"]) == (200, "3")
