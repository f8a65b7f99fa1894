"""Limits beside the routes of Starlette and FastAPI applications.

@limit("10/second", by="ip")
async def homepage(request): ...
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException, WebSocketException
from starlette.requests import HTTPConnection
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response as StarletteResponse

import headgate._core as _core
from headgate.errors import ConfigError, RateLimited
from headgate.limiter import Limiter
from headgate.middleware import frameworks, workers
from headgate.middleware.asgi import HeadgateMiddleware, own_facts
from headgate.middleware.gate import GATE, Gate, unauthorized
from headgate.middleware.passage import Passage, of
from headgate.middleware.route_limit import RouteLimit

__all__ = ["HeadgateMiddleware", "Limit", "Refused", "limit", "user_or_ip"]

F = TypeVar("F", bound=Callable[..., Any])

# RFC 6455 has no word for it; this is the one registered for "try again later".
_TRY_AGAIN_LATER = 1013
_NOT_KNOWN = 1008
# What a decorated endpoint is given beside its own arguments, where it names none itself.
_REQUEST, _RESPONSE = "headgate_request", "headgate_response"


class Refused(HTTPException, RateLimited):
    """A route's limit refused. Handlers for it, for `RateLimited`, for its status or for `HTTPException` see it; where
    there is none, it is answered as every refusal is."""

    def __init__(self, passage: Passage, decision: _core.Decision) -> None:
        RateLimited.__init__(self, decision)
        self.passage = passage
        detail = decision.body().get("error")
        HTTPException.__init__(self, decision.status, detail, passage.headers())


class Limit(RouteLimit):
    """What `limit` makes: a dependency for `Depends`, and a decorator for endpoints."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # FastAPI asks an object's `__call__` whether it is async. The class's own takes endpoints too, and so is not.
        self.__call__ = self.depend  # type: ignore[method-assign,assignment]
        self.__signature__ = inspect.signature(self.depend, eval_str=True)

    def __call__(self, request: Any = None, response: Any = None) -> Any:
        if inspect.isroutine(request) or inspect.isclass(request) or isinstance(request, functools.partial):
            return self.decorate(request)
        return self.depend(request, response)

    async def depend(self, request: HTTPConnection, response: StarletteResponse) -> None:
        """As a dependency: raises Refused."""
        passage = await self._passage(request)
        is_ours = not passage.is_answered_by_middleware
        if is_ours and self.when is not None:
            raise ConfigError("limit(when=…) as a dependency needs HeadgateMiddleware, which sees the response")
        await self._step(passage, request)
        if is_ours:
            response.headers.update(passage.headers())

    def decorate(self, endpoint: F) -> F:
        """As a decorator: the endpoint needs no `request` argument for it."""
        if inspect.isclass(endpoint):
            raise TypeError("limit: put it on an endpoint's methods, not on its class")
        call: Callable[..., Awaitable[Any]] = _as_async(endpoint)
        written = getattr(endpoint, "__headgate_limits__", ())
        # A limit beneath this one wants what was injected too.
        take = dict.get if written else dict.pop

        @functools.wraps(endpoint)
        async def limited(*args: Any, **kwargs: Any) -> Any:
            request, response = take(kwargs, _REQUEST, None), take(kwargs, _RESPONSE, None)
            request = request or _find_request(args, kwargs)
            passage = await self._passage(request)
            await self._step(passage, request)
            if passage.is_answered_by_middleware:
                return await call(*args, **kwargs)
            response = response or _find(args, kwargs, StarletteResponse)
            return await _answer(passage, request, response, call(*args, **kwargs))

        limited.__signature__ = _with_injected(endpoint)  # type: ignore[attr-defined]
        limited.__headgate_limits__ = (*written, self)  # type: ignore[attr-defined]
        return cast(F, limited)

    async def _passage(self, request: HTTPConnection) -> Passage:
        """The request's, begun here where there is no middleware, or none that decides about it."""
        found = of(request.scope)
        if found is not None:
            return found
        scope = cast("dict[str, Any]", request.scope)
        gate: Gate = scope.get(GATE) or self.own_gate()
        workers.look(gate.limiter)
        frameworks.meet(scope.get("app"))
        if gate.identify is None:
            identity = _core.identify_asgi(gate.limiter, scope)
            if identity.is_rejected:
                if scope["type"] == "websocket":
                    raise WebSocketException(_NOT_KNOWN, "credentials that are not good")
                raise HTTPException(401, identity.error, dict(unauthorized(identity).headers))
            passage = Passage(gate, identity)
        else:
            passage = Passage(gate, None, await own_facts(gate, scope))
        scope["headgate"] = passage
        return passage

    async def _step(self, passage: Passage, request: HTTPConnection) -> None:
        try:
            await self.acheck(passage, request)
        except RateLimited as refused:
            if request.scope["type"] == "websocket":
                raise WebSocketException(_TRY_AGAIN_LATER, "rate limit exceeded") from None
            _prepare_handlers(request.scope)
            raise Refused(passage, refused.decision) from None


def limit(
    limit: int | str,
    window: float | str | None = None,
    *,
    by: Any = "user",
    cost: Any = 1,
    when: Any = None,
    name: str | None = None,
    algorithm: str | None = None,
    burst: int | None = None,
    limiter: Limiter | None = None,
) -> Limit:
    """A limit for routes: `Depends(limit("10/second", by=user_or_ip))`, or `@limit("10/second")` on an endpoint.

    limit    as `Limiter.check_limit` takes it: `"5/minute"`, `"100/second burst 200"`, or a number with `window`
    by       `user` (else the address), `ip`, `org`, `api_key`, `global`, several of them, or a function of the request,
             sync or async, that gives a text; where it gives None the address is counted
    cost     a whole number, or a function of the request
    when     a function of the response (`.status`, `.headers`): where it gives false, what was spent is given back
    name     names the limit's counters: places that share a name share them
    limiter  which counters; those of `HeadgateMiddleware` unless said, else this process's own
    """
    return Limit(
        limit, window, by=by, cost=cost, when=when, name=name, algorithm=algorithm, burst=burst, limiter=limiter
    )


def user_or_ip(request: HTTPConnection) -> str | None:
    """The user that was identified; None, and so the address, where there is none. The same as `by="user"`."""
    passage = of(request.scope)
    user = None if passage is None else passage.facts.get("user")
    return None if user is None else str(user)


def _prepare_handlers(scope: Any) -> None:
    """Have refusals answered as every refusal is, unless the application has a handler of its own."""
    handlers, _ = scope.get("starlette.exception_handlers", ({}, {}))
    if Refused in handlers:
        return
    if RateLimited in handlers:
        handlers[Refused] = handlers[RateLimited]
        return
    fastapi = sys.modules.get("fastapi")
    general = handlers.get(getattr(fastapi, "HTTPException", None)) or handlers.get(HTTPException)
    if general is not handlers.get(HTTPException):
        # FastAPI's own exception is a narrower one; who handles that means every one of them.
        handlers[Refused] = general
    elif getattr(general, "__module__", "").partition(".")[0] in ("starlette", "fastapi", ""):
        handlers[Refused] = _respond


async def _respond(_: StarletteRequest, refused: Refused) -> StarletteResponse:
    passage = refused.passage
    refusal = passage.gate.refusal(passage.steps)
    return StarletteResponse(refusal.body, refusal.status, passage.headers(), refusal.content_type)


async def _answer(passage: Passage, request: HTTPConnection, given: Any, result: Awaitable[Any]) -> Any:
    """Without a middleware the decorator sees the response, or what becomes of it."""
    try:
        answer = await result
    except HTTPException as error:
        passage.settle(error.status_code, (error.headers or {}).items())
        raise
    except Exception:
        passage.settle(500)
        raise
    response = answer if isinstance(answer, StarletteResponse) else given
    if response is not None:
        usual = getattr(request.scope.get("route"), "status_code", None) or 200
        passage.settle(getattr(response, "status_code", None) or usual, response.headers.items())
        for name, value in passage.headers().items():
            response.headers.setdefault(name, value)
    return answer


def _as_async(endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """As the frameworks do it: a function that may block runs in a thread."""
    if inspect.iscoroutinefunction(endpoint):
        return endpoint
    return functools.partial(run_in_threadpool, endpoint)


def _find_request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> HTTPConnection:
    found = _find(args, kwargs, HTTPConnection)
    if isinstance(found, HTTPConnection):
        return found
    raise TypeError("limit: this function was not called as an endpoint; for other functions there is Limiter.limit")


def _find(args: tuple[Any, ...], kwargs: dict[str, Any], kind: type) -> Any:
    return next((value for value in (*args, *kwargs.values()) if isinstance(value, kind)), None)


def _with_injected(endpoint: Callable[..., Any]) -> inspect.Signature:
    """The endpoint's signature with what FastAPI is to inject. It injects one of each, so not where there is one."""
    signature = inspect.signature(endpoint, eval_str=True)
    kinds = inspect.Parameter
    parameters = list(signature.parameters.values())
    takes_rest = bool(parameters) and parameters[-1].kind is kinds.VAR_KEYWORD
    rest = [parameters.pop()] if takes_rest else []
    wanted = ((_REQUEST, HTTPConnection, StarletteRequest), (_RESPONSE, StarletteResponse, StarletteResponse))
    for name, kind, annotation in wanted:
        if not any(_is_a(parameter.annotation, kind) for parameter in parameters):
            parameters.append(kinds(name, kinds.KEYWORD_ONLY, annotation=annotation))
    return signature.replace(parameters=[*parameters, *rest])


def _is_a(annotation: object, kind: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, kind)
