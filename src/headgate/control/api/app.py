"""The admin API as one ASGI application."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool

from headgate import __version__
from headgate.control.api import openapi
from headgate.control.api.call import Inside
from headgate.control.api.call_counts import CallCounts
from headgate.control.api.cursors import Cursors
from headgate.control.api.docs_page import docs_texts
from headgate.control.api.door import Door
from headgate.control.api.failures import add_handlers
from headgate.control.api.limits import ApiLimits
from headgate.control.api.metrics import metrics_text
from headgate.control.api.recorder import Recorder
from headgate.control.api.remembered import Remembered
from headgate.control.api.routes import (
    apply,
    backup,
    blocks,
    docs,
    feed,
    fleet,
    health,
    keys,
    overrides,
    rules,
    switches,
    tiers,
    tokens,
    versions,
)
from headgate.control.api.services import Services
from headgate.control.tokens import Doorman

_ROUTERS: tuple[APIRouter, ...] = (
    rules.router,
    tiers.router,
    overrides.router,
    keys.router,
    blocks.router,
    switches.router,
    apply.router,
    fleet.router,
    versions.router,
    tokens.router,
    backup.router,
    docs.router,
    feed.router,
)

_log = structlog.get_logger("headgate.control")


def make_app(services: Services) -> FastAPI:
    """Holds nothing that is not in `services`, but for counters, a second's memory of tokens, and the calls that wait
    to be recorded; those are written when the application is shut down."""
    recorder = Recorder(services.database)
    counts = CallCounts()
    inside = Inside(
        services=services,
        doorman=Doorman(services.database, used=recorder.used),
        limits=ApiLimits(services.limits),
        cursors=Cursors(services.feed_key or b"headgate"),
        counts=counts,
        recorder=recorder,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(recorder.stop)

    app = FastAPI(
        title="Headgate",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.inside = inside
    app.state.head_now = Remembered(inside.head)
    app.state.metrics_now = Remembered(lambda: metrics_text(inside))
    app.state.docs_now = Remembered(lambda: docs_texts(app.openapi()), fresh_s=math.inf)
    routers = [*_ROUTERS, health.router] if services.own_health else list(_ROUTERS)
    # Flat, in this order: the first that matches answers.
    for router in routers:
        app.router.routes.extend(router.routes)
    openapi.attach(app)
    add_handlers(app, counts)
    app.add_middleware(Door, recorder=recorder, counts=counts, routes=app.router.routes)
    return app
