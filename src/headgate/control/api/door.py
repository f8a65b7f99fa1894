"""What every call passes first and last: sane requests only, a record of what happened, and an honest 500.

Outside of FastAPI's own handling, so that nothing inside can forget it.
"""

from __future__ import annotations

import re
import secrets
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.control.api.call_counts import CallCounts
from headgate.control.api.problems import problem_response
from headgate.control.api.recorder import Recorder
from headgate.storage.sql.calls import CallRow

_log = structlog.get_logger("headgate.control")

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# HEAD of these would do all the work of GET for nothing.
_NO_HEAD = ("/api/v1/export", "/api/v1/backup", "/feed/")
_PATH_CHARS_MAX = 4_096
FRAMES_MAX = 10
_RECORDED_PATH_CHARS_MAX = 1_024
_SECURITY_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


@dataclass(slots=True)
class Trace:
    """What the inside of the API tells the door about a call."""

    who: str | None = None
    why: str | None = None
    refusal: str | None = None
    dry_run: bool = False
    # A call that only looks, at something that should be known to have been looked at.
    notable: bool = False


def trace_of(scope: Scope) -> Trace:
    trace: Trace = scope["headgate.trace"]
    return trace


class Door:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, recorder: Recorder, counts: CallCounts, routes: list[BaseRoute]) -> None:
        self._app, self._recorder, self._counts, self._routes = app, recorder, counts, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method: str = scope["method"]
        passing = _Passing(send, head=method == "HEAD")
        started = time.perf_counter()
        early = self._early(scope)
        trace = Trace()
        # A copy: the server's own still says HEAD, so that it expects no body.
        inner = method if early is not None or method != "HEAD" else "GET"
        scope = {**scope, "method": inner, "headgate.trace": trace}
        try:
            await (early or self._app)(scope, receive, passing.send)
        except ClientDisconnect:
            # Nobody is there to be answered.
            passing.status = passing.status or 499
        except Exception as error:
            await self._broken(error, scope, receive, passing)
        finally:
            self._told(scope, method, passing.status or 499, trace, time.perf_counter() - started)

    def _early(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        # A newline at the end would be overlooked by routers that end their patterns with `$`.
        if _CONTROL.search(path):
            return problem_response(400, "the path holds a control character; nothing here has one in its name")
        if len(path) > _PATH_CHARS_MAX:
            return problem_response(414, f"the path is longer than {_PATH_CHARS_MAX} characters")
        method = scope["method"]
        if method == "OPTIONS" or (method == "HEAD" and path.startswith(_NO_HEAD)):
            allowed = self.allowed(scope)
            if not allowed:
                return problem_response(404, "there is nothing here")
            if method == "HEAD":
                return problem_response(
                    405, "HEAD is not answered here; use GET", headers={"Allow": ", ".join(allowed)}
                )
            return Response(status_code=204, headers={"Allow": ", ".join(allowed)})
        return None

    def allowed(self, scope: Scope) -> list[str]:
        return allowed_methods(self._routes, scope)

    async def _broken(self, error: Exception, scope: Scope, receive: Receive, passing: _Passing) -> None:
        number = secrets.token_hex(8)
        # Without its message and without the values of variables: either may hold a token or a key.
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES_MAX:]
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        told = {"error": type(error).__name__, "frames": where}
        _log.error("call_failed", id=number, method=scope["method"], route=_route(scope), **told)
        if passing.status is not None:
            # Half an answer was sent. The server sees that it has no end, and closes the connection.
            raise error
        detail = f"something went wrong inside; nothing more is told here. The log has it under {number}"
        await problem_response(500, detail, instance=f"urn:headgate:error:{number}")(scope, receive, passing.send)

    def _told(self, scope: Scope, method: str, status: int, trace: Trace, took_s: float) -> None:
        path: str = scope["path"]
        self._counts.count(_route(scope), method, status, took_s)
        changing = method not in _SAFE_METHODS and not trace.dry_run and status not in (404, 405, 429)
        if status not in (401, 403) and (trace.who is None or not (changing or trace.notable)):
            return
        client = scope.get("client")
        self._recorder.put(
            CallRow(
                at=datetime.now(UTC),
                who=trace.who or trace.refusal or "nobody",
                method=method[:16],
                path=_CONTROL.sub("?", path)[:_RECORDED_PATH_CHARS_MAX],
                status=status,
                address=client[0] if client else None,
                why=trace.why,
            )
        )


class _Passing:
    """`send` that remembers the status, adds headers, and keeps the body of an answer to HEAD to itself."""

    __slots__ = ("_head", "_send", "status")

    def __init__(self, send: Send, *, head: bool) -> None:
        self._send, self._head = send, head
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *_SECURITY_HEADERS]
        elif message["type"] == "http.response.body" and self._head:
            message = {**message, "body": b""}
        await self._send(message)


def allowed_methods(routes: Iterable[BaseRoute], scope: Scope) -> list[str]:
    """Every method that is answered at a path, whichever of the routes does."""
    found: set[str] = set()
    for route in routes:
        match, _ = route.matches({**scope, "method": "GET"})
        if match != Match.NONE:
            found |= getattr(route, "methods", None) or set()
    if "GET" in found and not scope["path"].startswith(_NO_HEAD):
        found.add("HEAD")
    return sorted(found | {"OPTIONS"}) if found else []


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path_format", None) or getattr(route, "path", None) or "none"
