"""Django's requests and responses, as the rest of the middleware has them."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar, cast

from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.functional import LazyObject

import headgate._core as _core
from headgate.limiter import Facts
from headgate.middleware import asgi, wsgi
from headgate.middleware.gate import Gate, Refusal
from headgate.middleware.passage import Passage

Response = TypeVar("Response", bound=HttpResponseBase)


def raw(request: HttpRequest) -> dict[str, Any]:
    """The ASGI scope or the WSGI environ."""
    scope = getattr(request, "scope", None)
    return cast("dict[str, Any]", request.META if scope is None else scope)


def raw_path(request: HttpRequest) -> str:
    scope = getattr(request, "scope", None)
    if scope is None:
        return wsgi.raw_path(request.META)
    return asgi.raw_path(scope).decode("utf-8", "replace") or "/"


def find(args: tuple[Any, ...]) -> HttpRequest:
    """The request among a view's arguments: the first, or the second of a method. REST framework wraps it."""
    for value in args[:2]:
        found = getattr(value, "_request", value)
        if isinstance(found, HttpRequest):
            return found
    raise TypeError("limit: this function was not called as a view; for other functions there is Limiter.limit")


def keep(request: HttpRequest, passage: Passage) -> Passage:
    """For views, as `request.headgate`; and where every middleware looks for it."""
    raw(request)["headgate"] = passage
    vars(request)["headgate"] = passage
    return passage


# --- who is asking


def identify(gate: Gate, request: HttpRequest) -> _core.Identity:
    scope = getattr(request, "scope", None)
    if scope is None:
        return _core.identify_wsgi(gate.limiter, request.META)
    return _core.identify_asgi(gate.limiter, scope)


def facts_of(gate: Gate, request: HttpRequest, identity: _core.Identity) -> Facts:
    if gate.identify is not None:
        who: Any = gate.identify(request)
        if inspect.isawaitable(who):
            who = async_to_sync(_awaited)(who)
        return gate.own_facts(who, lambda: identity.ip)
    return with_user(cast(Facts, identity.facts()), getattr(request, "user", None))


async def afacts_of(gate: Gate, request: HttpRequest, identity: _core.Identity) -> Facts:
    """A function that is not async may ask the database, and so runs in a thread, as Django's own do."""
    if gate.identify is not None:
        ask: Any = gate.identify if iscoroutinefunction(gate.identify) else sync_to_async(gate.identify)
        who = await ask(request)
        return gate.own_facts(await who if inspect.isawaitable(who) else who, lambda: identity.ip)
    facts = cast(Facts, identity.facts())
    user = getattr(request, "user", None)
    if not isinstance(user, LazyObject):
        return with_user(facts, user)
    if hasattr(request, "auser"):
        return with_user(facts, await request.auser())
    return await sync_to_async(with_user)(facts, user)


def with_user(facts: Facts, user: Any) -> Facts:
    """Who is signed in stands above what a token says, as for the views."""
    if getattr(user, "is_authenticated", False) and (pk := getattr(user, "pk", None)) is not None:
        facts["user"] = str(pk)
    return facts


def asked(gate: Gate, request: HttpRequest, facts: Facts) -> Facts:
    return {**facts, "path": raw_path(request), "method": request.method or "GET", "cost": gate.cost_of(request)}


async def _awaited(who: Any) -> Any:
    return await who


# --- answers


def response_of(refusal: Refusal) -> HttpResponse:
    headers = {"Content-Type": refusal.content_type, **dict(refusal.headers)}
    return HttpResponse(refusal.body, status=refusal.status, headers=headers)


def refusal_of(passage: Passage) -> HttpResponse:
    return response_of(passage.gate.refusal(passage.steps))


def answer(passage: Passage, response: Response) -> Response:
    """The response with its headers, and what depends on it settled."""
    if passage.settles:
        passage.settle(response.status_code, response.headers.items())
    return with_headers(passage, response)


def with_headers(passage: Passage, response: Response) -> Response:
    for name, value in passage.headers().items():
        response.headers.setdefault(name, value)
    return response


def settle_error(passage: Passage, error: BaseException) -> None:
    """By what Django makes of an exception that leaves a view."""
    if isinstance(error, Http404):
        status = 404
    elif isinstance(error, PermissionDenied):
        status = 403
    elif isinstance(error, BadRequest | SuspiciousOperation):
        status = 400
    else:
        status = 500
    passage.settle(status)
