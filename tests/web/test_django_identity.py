"""Who is asking, in Django: who is signed in, or whom the project's own function names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.db import connections
from django.http import HttpRequest
from django.test import AsyncClient, Client
from django.urls import path

from tests.web.asgi_call import call
from tests.web.django_project import HEADGATE, SESSIONS, site
from tests.web.django_shop import PER_USER, aseen, left, limiter, seen


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    call_command("migrate", verbosity=0)
    yield User.objects.create_user("ada")
    connections.close_all()


def test_who_is_signed_in_is_the_user(user: User) -> None:
    counts, client = limiter(PER_USER), Client()
    with site([path("", seen)], {"limiter": counts}, [*SESSIONS, HEADGATE]):
        client.force_login(user)
        client.get("/")
        Client().get("/")
    assert (left(counts, user=user.pk), left(counts)) == (9, 9)


def test_who_is_signed_in_is_the_user_of_an_async_site(user: User) -> None:
    counts = limiter(PER_USER)

    async def ask() -> None:
        client = AsyncClient()
        await client.aforce_login(user)
        await client.get("/")

    with site([path("", aseen)], {"limiter": counts}, [*SESSIONS, HEADGATE]):
        asyncio.run(ask())
    assert left(counts, user=user.pk) == 9


def test_before_authentication_nobody_is_signed_in(user: User) -> None:
    counts, client = limiter(PER_USER), Client()
    with site([path("", seen)], {"limiter": counts}, [HEADGATE, *SESSIONS]):
        client.force_login(user)
        client.get("/")
    assert (left(counts, user=user.pk), left(counts)) == (10, 9)


def identify(request: HttpRequest) -> dict[str, Any]:
    return {"user": request.headers.get("X-User"), "tier": "pro"}


async def aidentify(request: HttpRequest) -> str | None:
    return request.headers.get("X-User")


def _set_user(get_response: Any) -> Any:
    def middleware(request: Any) -> Any:
        request.user = User(pk=7)
        return get_response(request)

    return middleware


@pytest.mark.parametrize("how", ["tests.web.test_django_identity.identify", identify, aidentify])
@pytest.mark.parametrize("view", [seen, aseen])
def test_the_projects_own_function_knows_callers(how: Any, view: Any) -> None:
    counts = limiter(PER_USER)
    with site([path("", view)], {"limiter": counts, "identify": how}):
        Client().get("/", headers={"X-User": "42"})
        asyncio.run(call(get_asgi_application(), "/", headers={"X-User": "42"}, ip="127.0.0.1"))
    assert left(counts, user="42") == 8


@pytest.mark.parametrize("is_async", [False, True])
def test_a_user_set_by_another_middleware_is_the_user(is_async: bool) -> None:
    counts = limiter(PER_USER)
    with site([path("", aseen if is_async else seen)], {"limiter": counts}, [f"{__name__}._set_user", HEADGATE]):
        if is_async:
            asyncio.run(call(get_asgi_application(), "/"))
        else:
            Client().get("/")
    assert left(counts, user="7") == 9
