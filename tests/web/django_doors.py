"""The application of `doors` in Django: sync views behind WSGI, async views behind ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import Client
from django.urls import URLPattern, path, re_path

from headgate import Limiter
from headgate.middleware.django import exempt, limit
from tests.web.answers import CLIENT_IP, ORIGIN, PIECES, Calls, Got
from tests.web.asgi_call import call
from tests.web.django_project import site

View = Callable[..., Any]


@dataclass
class DjangoDoor:
    patterns: list[URLPattern]
    headgate: dict[str, Any]
    is_async: bool

    def ask(
        self,
        path: str = "/api/items",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        ip: str = CLIENT_IP,
    ) -> Got:
        with site(self.patterns, self.headgate):
            if self.is_async:
                return asyncio.run(call(get_asgi_application(), path, method, headers, ip))
            client = Client(raise_request_exception=False)
            answer: Any = client.generic(method, ORIGIN + path, headers=dict(headers or {}), REMOTE_ADDR=ip)
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        return Got(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, body)


def make_django(
    limiter: Limiter,
    calls: Calls | None = None,
    *,
    view_limit: str = "1/minute",
    is_async: bool = False,
    **options: Any,
) -> DjangoDoor:
    calls = calls or Calls()

    def api(request: HttpRequest, rest: str = "") -> HttpResponse:
        calls.paths.append(request.path)
        return HttpResponse(rest)

    def answer(_: HttpRequest, status: int) -> HttpResponse:
        return HttpResponse(status=status)

    def fails(_: HttpRequest) -> HttpResponse:
        raise RuntimeError("the application fails")

    def stream(_: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(_apieces() if is_async else iter(PIECES))

    @limiter.limit("1/minute")
    def work() -> str:
        return "worked"

    def met(_: HttpRequest) -> HttpResponse:
        return HttpResponse(work())

    def plain(_: HttpRequest) -> HttpResponse:
        return HttpResponse("plain")

    def in_form(view: View) -> View:
        return _as_async(view) if is_async else view

    failures = limit("2/minute", by="ip", when=lambda response: response.status >= 400)
    patterns = [
        path("answer/<int:status>", in_form(answer)),
        path("fails", in_form(fails)),
        path("stream", in_form(stream)),
        path("limited", limit(view_limit, by="ip")(in_form(plain))),
        path("login/<int:status>", failures(in_form(answer))),
        path("met", in_form(met)),
        path("free", exempt(in_form(lambda _: HttpResponse("free")))),
        path("healthz", in_form(plain)),
        re_path(r"^/?api/(?P<rest>.*)$", in_form(api)),
    ]
    return DjangoDoor(patterns, {"limiter": limiter, **options}, is_async)


def make_async_django(*args: Any, **options: Any) -> DjangoDoor:
    return make_django(*args, is_async=True, **options)


def _as_async(view: View) -> View:
    async def aview(request: HttpRequest, **kwargs: Any) -> Any:
        return view(request, **kwargs)

    return aview


async def _apieces() -> AsyncIterator[bytes]:
    for piece in PIECES:
        yield piece
