"""The throttle for Django REST framework, asked through its own views."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import path
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from headgate import Limiter
from headgate.errors import ConfigError
from headgate.middleware.drf import HeadgateThrottle
from tests.web.django_project import HEADGATE, site
from tests.web.django_shop import PER_IP, PER_USER, left, limiter, statuses


class ByHeader(BaseAuthentication):
    """Knows users as only REST framework does."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        name = request.headers.get("X-User")
        return None if name is None else (User(pk=int(name)), None)


class Twice(HeadgateThrottle):
    limit = "2/minute"


class Burst(HeadgateThrottle):
    scope = "burst"


class Narrow(HeadgateThrottle):
    limit = "1/minute"
    by = "ip"
    name = "narrow"


class Wide(HeadgateThrottle):
    limit = "5/hour"
    by = ("ip",)
    name = "wide"


def view(*throttles: type[HeadgateThrottle], **attributes: Any) -> Callable[..., Any]:
    class Items(APIView):
        authentication_classes = (ByHeader,)
        permission_classes = ()
        throttle_classes = throttles

        def get(self, _: Request) -> Response:
            return Response({"items": []})

    for name, value in attributes.items():
        setattr(Items, name, value)
    return Items.as_view()


def test_a_throttle_counts_by_the_user_that_rest_framework_knows() -> None:
    counts = limiter()
    with site([path("", view(Twice))], {"limiter": counts}):
        assert statuses("/", 3, headers={"X-User": "1"}) == [200, 200, 429]
        assert statuses("/", 3, headers={"X-User": "2"}) == [200, 200, 429]
        assert statuses("/", 3) == [200, 200, 429]


@pytest.mark.parametrize("middleware", [[HEADGATE], []])
def test_a_refusal_tells_one_wait_everywhere(middleware: list[str]) -> None:
    with site([path("", view(Twice))], {"limiter": limiter()}, middleware):
        allowed, _, refused = (Client().get("/") for _ in range(3))
    assert (allowed.headers["X-RateLimit-Limit"], allowed.headers["X-RateLimit-Remaining"]) == ("2", "1")
    wait_s = refused.headers["Retry-After"]
    assert 60 <= int(wait_s) <= 66
    assert json.loads(refused.content)["detail"] == f"Request was throttled. Expected available in {wait_s} seconds."
    assert refused.headers["X-RateLimit-Remaining"] == "0"
    assert refused.headers["RateLimit-Policy"] == '"2/minute";q=2;w=60'


def test_a_throttles_refusal_gives_back_what_the_rules_and_the_others_spent() -> None:
    counts = limiter(PER_IP)
    with site([path("", view(Wide, Narrow)), path("wide", view(Wide))], {"limiter": counts}):
        assert statuses("/", 3) == [200, 429, 429]
        assert statuses("/wide", 5) == [200] * 4 + [429]
    assert left(counts) == 5


def test_throttles_after_a_refusal_spend_nothing_and_the_longest_wait_is_told() -> None:
    with site([path("", view(Narrow, Wide)), path("wide", view(Wide))], {"limiter": limiter(), "jitter": 0}):
        assert statuses("/", 3) == [200, 429, 429]
        assert statuses("/wide", 4) == [200] * 4
        refused = Client().get("/")
    assert (refused.headers["Retry-After"], refused.headers["X-RateLimit-Limit"]) == ("3600", "5")
    assert "3600 seconds" in json.loads(refused.content)["detail"]


def test_a_cost_that_never_fits_names_no_wait() -> None:
    class Dear(HeadgateThrottle):
        limit = "2/minute"

        def cost(self, request: Request) -> int:
            return int(request.query_params["n"])

    with site([path("", view(Dear))], {"limiter": limiter()}):
        assert Client().get("/?n=2").status_code == 200
        refused = Client().get("/?n=3")
    assert refused.status_code == 429
    assert "Retry-After" not in refused.headers


def test_a_scope_is_looked_up_in_the_settings_and_shared_by_views() -> None:
    by_view = view(HeadgateThrottle, throttle_scope="burst")
    with site([path("a", view(Burst)), path("b", by_view)], {"limiter": limiter(), "throttles": {"burst": "2/minute"}}):
        assert statuses("/a", 1) + statuses("/b", 2) == [200, 200, 429]
        assert Client().get("/a").headers["RateLimit-Policy"] == '"burst";q=2;w=60'


def test_a_scope_without_a_limit_says_where_to_write_it() -> None:
    told = r'settings.HEADGATE\["throttles"\]\["burst"\]'
    options = {"limiter": limiter(), "throttles": {"bursts": "2/minute"}}
    with site([path("", view(Burst))], options), pytest.raises(ImproperlyConfigured, match=told):
        Client().get("/")


def test_a_view_may_have_its_own_limit_or_none() -> None:
    with site([path("a", view(HeadgateThrottle, headgate_limit="1/minute")), path("b", view(HeadgateThrottle))], {}):
        assert statuses("/a", 2) + statuses("/b", 2) == [200, 429, 200, 200]


def test_a_throttle_may_count_by_a_method_of_its_own() -> None:
    class ByTeam(HeadgateThrottle):
        limit = "1/minute"

        def by(self, request: Request) -> str | None:
            return request.query_params.get("team")

    with site([path("", view(ByTeam))], {"limiter": limiter()}):
        assert [statuses(f"/?team={team}", 1) for team in "aab"] == [[200], [429], [200]]


def test_only_failures_count_where_that_is_asked() -> None:
    class Failures(HeadgateThrottle):
        limit = "1/minute"
        when = staticmethod(lambda response: response.status >= 400)

    with site([path("", view(Failures))], {"limiter": limiter()}):
        assert statuses("/", 3) == [200] * 3
        assert [Client().post("/").status_code for _ in range(2)] == [405, 429]
    with site([path("", view(Failures))], {"limiter": limiter()}, []), pytest.raises(ConfigError, match="Middleware"):
        Client().get("/")


def test_counters_of_its_own() -> None:
    class Own(HeadgateThrottle):
        limit = "1/minute"
        limiter = Limiter()

    counts = limiter(PER_USER)
    with site([path("", view(Own))], {"limiter": counts}):
        assert statuses("/", 2) == [200, 429]
    assert left(counts) == 9


def test_a_mistake_in_a_limit_stops_the_program_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="often"):

        class Wrong(HeadgateThrottle):
            limit = "often"
