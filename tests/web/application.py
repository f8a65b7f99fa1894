"""The application behind our middleware, for ASGI and WSGI servers: it does what they do, and tells of itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from headgate import Limiter
from headgate.middleware import Request as Asked
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.middleware.passage import Passage
from headgate.middleware.wsgi import HeadgateMiddleware as WsgiMiddleware
from tests.web.heartbeat import Heartbeat
from tests.web.servers import wanted

EXEMPT = ("/ready", "/probe")
CHUNK = b"x" * 65_536
EVENTS = 5
_wanted = wanted()
_seen: dict[str, Any] = {"lifespan": [], "background": 0, "entered": 0, "left": 0}
_heartbeat = Heartbeat()


def make_limiter() -> Limiter:
    options = {name: _wanted[name] for name in ("store", "store_deadline") if name in _wanted}
    return Limiter(_wanted.get("rules"), **options)


def user_of(request: Asked) -> str | None:
    return request.headers.get("x-user")


def _passage(request: Request) -> Passage:
    passage = request.scope["headgate"]
    assert isinstance(passage, Passage)
    return passage


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    """Whoever goes in comes out, however it ends."""
    _seen["entered"] += 1
    try:
        yield
    finally:
        _seen["left"] += 1


async def ready(_: Request) -> Response:
    return JSONResponse({"pid": os.getpid()})


async def items(request: Request) -> Response:
    decision = _passage(request).decision
    return JSONResponse({"pid": os.getpid(), "path": None if decision is None else decision.path})


async def error(_: Request) -> Response:
    raise RuntimeError("the application's own mistake")


async def slow(_: Request) -> Response:
    """Long enough for its client to go away meanwhile."""
    with _counted():
        await asyncio.sleep(0.3)
    return JSONResponse({})


async def events(_: Request) -> Response:
    async def stream() -> AsyncIterator[str]:
        for number in range(EVENTS):
            yield f"data: {number}\n\n"
            await asyncio.sleep(0.02)

    return StreamingResponse(stream(), media_type="text/event-stream")


async def endless(_: Request) -> Response:
    """Until its client goes away."""

    async def stream() -> AsyncIterator[bytes]:
        with _counted():
            while True:
                yield b"more\n"
                await asyncio.sleep(0.01)

    return StreamingResponse(stream(), media_type="text/plain")


async def large(request: Request) -> Response:
    """Takes a large body in pieces, and answers with as many bytes, in pieces."""
    size = 0
    with _counted():
        async for chunk in request.stream():
            size += len(chunk)

    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, size, len(CHUNK)):
            yield CHUNK[: size - start]

    return StreamingResponse(stream(), headers={"x-received-bytes": str(size)})


async def background(_: Request) -> Response:
    async def later() -> None:
        await asyncio.sleep(0.05)
        _seen["background"] += 1

    return JSONResponse({}, background=BackgroundTask(later))


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    with contextlib.suppress(Exception):
        while True:
            await socket.send_text(await socket.receive_text())


async def probe(request: Request) -> Response:
    if "reset" in request.query_params:
        _heartbeat.reset()
    if "collect" in request.query_params:
        gc.collect()
    resident_kb = int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
    told = {
        "gap_s": _heartbeat.gap_s,
        "tasks": len(asyncio.all_tasks()),
        "stats": _limiter.stats(),
        "resident_bytes": resident_kb * 1024,
        "passages": sum(type(thing) is Passage for thing in gc.get_objects()),
    }
    return JSONResponse(_seen | told)


@contextlib.asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncIterator[None]:
    _heartbeat.start()
    _seen["lifespan"].append("started")
    yield
    await _heartbeat.stop()
    # Read from the log by the test: nothing else is left to tell of it.
    print("lifespan ended", flush=True)


_limiter = make_limiter()
_functions: list[Callable[[Request], Any]] = [
    ready,
    items,
    error,
    slow,
    events,
    endless,
    large,
    background,
    probe,
]
_routes = [Route(f"/{function.__name__}", function, methods=["GET", "POST"]) for function in _functions]
bare = Starlette(routes=[*_routes, WebSocketRoute("/ws", echo)], lifespan=_lifespan)
asgi = HeadgateMiddleware(bare, _limiter, identify=user_of, exempt=EXEMPT)


def _bare_wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    passage: Passage | None = environ.get("headgate")
    decision = None if passage is None else passage.decision
    body = json.dumps({"pid": os.getpid(), "path": None if decision is None else decision.path}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


wsgi = WsgiMiddleware(_bare_wsgi, _limiter, identify=user_of, exempt=EXEMPT)
