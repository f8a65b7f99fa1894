"""How the routes of `/api/v1` are run: looking on any thread, changing in turn."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

from headgate.control.api.call import Call
from headgate.control.api.turns import Turns

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_EMERGENCY = ("/api/v1/blocks", "/api/v1/switches")


class InTurn(APIRoute):
    """A route that changes something waits for its turn without holding a thread."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if _CHANGING.intersection(options.get("methods") or ()) and not inspect.iscoroutinefunction(endpoint):
            endpoint = _in_turn(endpoint, is_urgent=path.startswith(_EMERGENCY))
        super().__init__(path, endpoint, **options)


def api_router(tag: str) -> APIRouter:
    return APIRouter(prefix="/api/v1", tags=[tag], route_class=InTurn)


def _in_turn(endpoint: Callable[..., Any], *, is_urgent: bool) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    async def waiting(*, call: Call, **given: Any) -> Any:
        turns: Turns = call.inside.turns.emergencies if is_urgent else call.inside.turns.changes
        return await turns.run(functools.partial(endpoint, call=call, **given))

    return waiting
