"""The same async application behind Headgate and behind each of its peers, for `beside_peers`: as their users do it.

Which limiter, and with which store, is what the test wants. Callers are told apart by `X-User`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any

import fastapi_limiter.depends
import pyrate_limiter
import slowapi
from fastapi import Depends, FastAPI, Request
from slowapi.errors import RateLimitExceeded

from headgate import Limiter
from headgate.middleware import Request as Asked
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.middleware.fastapi import limit
from tests.web.heartbeat import Heartbeat
from tests.web.servers import wanted

PLENTY = "1000000/day"
OWN, SHARED = 5, 20
DAY_MS = 24 * 60 * 60 * 1_000
MEMORY = "memory://"
_heartbeat = Heartbeat()
_store: str = wanted().get("store", MEMORY)


@contextlib.asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    _heartbeat.start()
    yield


def _new_app() -> FastAPI:
    app = FastAPI(lifespan=_lifespan)

    @app.get("/ready")
    async def ready() -> dict[str, Any]:
        return {"pid": os.getpid()}

    @app.get("/probe")
    async def probe(reset: bool = False) -> dict[str, Any]:
        gap_s = _heartbeat.gap_s
        if reset:
            _heartbeat.reset()
        return {"gap_s": gap_s}

    return app


def user_of(request: Asked) -> str | None:
    return request.headers.get("x-user")


def headgate_app() -> HeadgateMiddleware:
    app = _new_app()

    @app.get("/items", dependencies=[Depends(limit(PLENTY))])
    async def items() -> dict[str, Any]:
        return {}

    everyone = limit(f"{SHARED}/day", by="global")

    @app.get("/shared", dependencies=[Depends(everyone), Depends(limit(f"{OWN}/day"))])
    async def shared() -> dict[str, Any]:
        return {}

    @app.get("/each", dependencies=[Depends(limit(f"{OWN}/day", by="ip"))])
    async def each() -> dict[str, Any]:
        return {}

    return HeadgateMiddleware(app, Limiter(store=_store), identify=user_of)


def slowapi_app() -> FastAPI:
    app = _new_app()
    limiter = slowapi.Limiter(key_func=lambda request: request.headers["x-user"], storage_uri=_store)
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, slowapi._rate_limit_exceeded_handler)  # type: ignore[arg-type]

    @app.get("/items")
    @limiter.limit(PLENTY)
    async def items(request: Request) -> dict[str, Any]:
        return {}

    @app.get("/shared")
    @limiter.limit(f"{OWN}/day")
    @limiter.shared_limit(f"{SHARED}/day", scope="everyone", key_func=lambda: "everyone")
    async def shared(request: Request) -> dict[str, Any]:
        return {}

    return app


def fastapi_limiter_app() -> FastAPI:
    app = _new_app()
    limiter = pyrate_limiter.Limiter(pyrate_limiter.Rate(OWN, DAY_MS))
    each_of_them = fastapi_limiter.depends.RateLimiter(limiter=limiter)

    @app.get("/each")
    async def each(_: Annotated[None, Depends(each_of_them)]) -> dict[str, Any]:
        return {}

    return app
