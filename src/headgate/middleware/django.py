"""Middleware and a decorator for Django projects.

    MIDDLEWARE = [..., "headgate.middleware.django.HeadgateMiddleware"]
    HEADGATE = {"rules": "rules.yaml", "store": "redis://host:6379"}

    @limit("5/minute", by="ip")
    def login(request): ...

Functions of the application's own (`identify`, `by`, `cost`) are given Django's request.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, get_resolver

from headgate.errors import RateLimited
from headgate.limiter import Limiter
from headgate.middleware import django_requests as requests
from headgate.middleware import django_settings
from headgate.middleware.gate import CostOf, Gate, When, not_decidable, unauthorized
from headgate.middleware.passage import Passage, of
from headgate.middleware.route_limit import By, RouteLimit

__all__ = ["HeadgateMiddleware", "Limit", "exempt", "limit"]

F = TypeVar("F", bound=Callable[..., Any])
GetResponse = Callable[[HttpRequest], Any]

_EXEMPT = "headgate_exempt"
_has_exempt = False


class HeadgateMiddleware:
    """Decides about every request before its view is called, by `settings.HEADGATE`: a dict of what
    `headgate.middleware.asgi` takes. `limiter`, `identify`, `cost` and `when` may be dotted paths.

    Place it after `AuthenticationMiddleware` to have signed-in users known; before it, or without it, callers are known
    by `identity` and their address.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        if not django_settings.is_configured():
            raise ImproperlyConfigured(
                'settings.HEADGATE: is missing; HeadgateMiddleware needs it: HEADGATE = {"rules": "rules.yaml"}'
            )
        self.get_response = get_response
        self.gate = django_settings.project_gate()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._acall(request)
        gate = self.gate
        if self._leaves_alone(request):
            return cast(HttpResponseBase, self.get_response(request))
        identity = requests.identify(gate, request)
        if gate.identify is None and identity.is_rejected:
            return requests.response_of(unauthorized(identity))
        facts = requests.facts_of(gate, request, identity)
        try:
            decision = gate.limiter.check(**requests.asked(gate, request, facts))
        except ValueError as error:
            return requests.response_of(not_decidable(error))
        passage = requests.keep(request, Passage(gate, identity, facts, decision))
        if not decision.allowed:
            return requests.with_headers(passage, requests.refusal_of(passage))
        try:
            response: HttpResponseBase = self.get_response(request)
        except BaseException:
            passage.settle(500)
            raise
        return requests.answer(passage, response)

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        gate = self.gate
        if self._leaves_alone(request):
            return cast(HttpResponseBase, await self.get_response(request))
        identity = requests.identify(gate, request)
        if gate.identify is None and identity.is_rejected:
            return requests.response_of(unauthorized(identity))
        facts = await requests.afacts_of(gate, request, identity)
        try:
            decision = await gate.limiter.acheck(**requests.asked(gate, request, facts))
        except ValueError as error:
            return requests.response_of(not_decidable(error))
        passage = requests.keep(request, Passage(gate, identity, facts, decision))
        if not decision.allowed:
            return requests.with_headers(passage, requests.refusal_of(passage))
        try:
            response: HttpResponseBase = await self.get_response(request)
        except BaseException:
            passage.settle(500)
            raise
        return requests.answer(passage, response)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """A refusal that a view met by itself."""
        if not isinstance(error, RateLimited):
            return None
        # None where the rules left the request alone.
        passage = of(requests.raw(request)) or Passage(self.gate, None)
        return _refuse(passage, error)

    def _leaves_alone(self, request: HttpRequest) -> bool:
        gate = self.gate
        django_settings.meet(gate)
        outer = of(requests.raw(request))
        if outer is not None and outer.limiter is gate.limiter:
            return True
        return gate.is_exempt(requests.raw_path(request)) or _is_exempt_view(request)


class Limit(RouteLimit):
    """What `limit` makes: a decorator for views, and for `method_decorator`. Whatever it is put on shares one limit."""

    def __call__(self, view: F) -> F:
        if inspect.isclass(view):
            raise TypeError('limit: on a class, write @method_decorator(limit(…), name="dispatch")')
        if iscoroutinefunction(view) or getattr(_owner(view), "view_is_async", False):

            @functools.wraps(view)
            async def alimited(*args: Any, **kwargs: Any) -> Any:
                request = requests.find(args)
                passage = of(requests.raw(request)) or await self._abegin(request)
                try:
                    await self.acheck(passage, request)
                    return _answer_own(passage, await view(*args, **kwargs))
                except RateLimited as refused:
                    return _refuse(passage, refused)
                except BaseException as error:
                    _settle_own(passage, error)
                    raise

            return cast(F, alimited)

        @functools.wraps(view)
        def limited(*args: Any, **kwargs: Any) -> Any:
            request = requests.find(args)
            passage = of(requests.raw(request)) or self._begin(request)
            try:
                self.check(passage, request)
                return _answer_own(passage, view(*args, **kwargs))
            except RateLimited as refused:
                return _refuse(passage, refused)
            except BaseException as error:
                _settle_own(passage, error)
                raise

        return cast(F, limited)

    def _begin(self, request: HttpRequest) -> Passage:
        """Where no middleware has, or the rules left the request alone."""
        gate = self._gate_without_middleware()
        identity = requests.identify(gate, request)
        return requests.keep(request, Passage(gate, identity, requests.facts_of(gate, request, identity)))

    async def _abegin(self, request: HttpRequest) -> Passage:
        gate = self._gate_without_middleware()
        identity = requests.identify(gate, request)
        return requests.keep(request, Passage(gate, identity, await requests.afacts_of(gate, request, identity)))

    def _gate_without_middleware(self) -> Gate:
        is_own = self.limiter is not None and not django_settings.is_configured()
        gate = self.own_gate() if is_own else django_settings.project_gate()
        django_settings.meet(gate)
        return gate


def limit(
    limit: int | str,
    window: float | str | None = None,
    *,
    by: By = "user",
    cost: CostOf = 1,
    when: When | None = None,
    name: str | None = None,
    algorithm: str | None = None,
    burst: int | None = None,
    limiter: Limiter | None = None,
) -> Limit:
    """A limit for views, sync or async: `@limit("5/minute", by="ip")`.

    limit    as `Limiter.check_limit` takes it: `"5/minute"`, `"100/second burst 200"`, or a number with `window`
    by       `user` (else the address), `ip`, `org`, `api_key`, `global`, several of them, or a function of the request
             that gives a text; where it gives None the address is counted
    cost     a whole number, or a function of the request
    when     a function of the response (`.status`, `.headers`): where it gives false, what was spent is given back
    name     names the limit's counters: places that share a name share them
    limiter  which counters; those of `settings.HEADGATE` unless said
    """
    return Limit(
        limit, window, by=by, cost=cost, when=when, name=name, algorithm=algorithm, burst=burst, limiter=limiter
    )


def exempt(view: F) -> F:
    """Leave a view alone: the rules do not look at it. For classes: `exempt(View.as_view())`, or `method_decorator`."""
    global _has_exempt
    _has_exempt = True
    setattr(view, _EXEMPT, True)
    return view


def _is_exempt_view(request: HttpRequest) -> bool:
    resolver = get_resolver(getattr(request, "urlconf", None))
    # Views are imported with the patterns, and only then is it known whether any is exempt.
    _ = resolver.url_patterns
    if not _has_exempt:
        return False
    try:
        return bool(getattr(resolver.resolve(request.path_info).func, _EXEMPT, False))
    except Resolver404:
        return False


def _owner(view: Callable[..., Any]) -> object:
    """The instance behind a bound method, which `method_decorator` hands over as a partial."""
    return getattr(getattr(view, "func", view), "__self__", None)


def _answer_own(passage: Passage, response: requests.Response) -> requests.Response:
    """Without a middleware the decorator sees the response."""
    return response if passage.is_answered_by_middleware else requests.answer(passage, response)


def _refuse(passage: Passage, refused: RateLimited) -> HttpResponse:
    passage.refused(refused.decision)
    return _answer_own(passage, requests.refusal_of(passage))


def _settle_own(passage: Passage, error: BaseException) -> None:
    if not passage.is_answered_by_middleware:
        requests.settle_error(passage, error)
