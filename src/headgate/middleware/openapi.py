"""Routes with a limit, in the OpenAPI document of a FastAPI application."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fastapi import FastAPI, routing

from headgate.middleware.starlette import Limit

_SECONDS = {"schema": {"type": "integer"}}
REFUSED: dict[str, Any] = {
    "description": "Rate limit exceeded",
    "headers": {
        "Retry-After": {"description": "Seconds to wait before trying again", **_SECONDS},
        "X-RateLimit-Limit": {"description": "The most that fits at once", **_SECONDS},
        "X-RateLimit-Remaining": {"description": "What still fits", **_SECONDS},
        "X-RateLimit-Reset": {"description": "Seconds until nothing is in use", **_SECONDS},
    },
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error", "retry_after"],
                "properties": {"error": {"type": "string"}, "retry_after": {"type": ["integer", "null"]}},
            }
        }
    },
}


def document(app: object) -> None:
    """Have the document of a FastAPI application say 429 where a route has a limit. `HeadgateMiddleware` and limits at
    work see to it; call it to have it before the first request."""
    if not isinstance(app, FastAPI) or getattr(app.openapi, "__headgate__", False):
        return
    plain: Callable[[], dict[str, Any]] = app.openapi
    # One that was made before knows nothing of limits.
    app.openapi_schema = None

    def openapi() -> dict[str, Any]:
        is_new = app.openapi_schema is None
        schema = plain()
        if is_new:
            _add(schema, app.routes)
        return schema

    openapi.__headgate__ = True  # type: ignore[attr-defined]
    app.openapi = openapi  # type: ignore[method-assign]


def _add(schema: dict[str, Any], routes: Iterable[Any]) -> None:
    for route in _api_routes(routes):
        if not _is_limited(route):
            continue
        operations = schema.get("paths", {}).get(route.path_format, {})
        for method in route.methods or ():
            if method.lower() in operations:
                operations[method.lower()].setdefault("responses", {}).setdefault("429", REFUSED)


def _api_routes(routes: Iterable[Any]) -> Iterator[Any]:
    """Every route with what its routers add to it. Older versions of FastAPI copy routes into the application."""
    contexts = getattr(routing, "iter_route_contexts", None)
    for route in routes if contexts is None else contexts(list(routes)):
        if isinstance(getattr(route, "original_route", route), routing.APIRoute):
            yield route


def _is_limited(route: Any) -> bool:
    if getattr(route.endpoint, "__headgate_limits__", None):
        return True
    waiting = [route.dependant]
    while waiting:
        dependant = waiting.pop()
        if isinstance(dependant.call, Limit):
            return True
        waiting.extend(dependant.dependencies)
    return False
