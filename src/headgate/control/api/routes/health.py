"""`/healthz`, `/readyz`, `/metrics`: open to all who reach the address, and told nothing that is secret."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from headgate.control.api.answers import reply
from headgate.control.api.problems import STORAGE_RETRY_S
from headgate.control.api.remembered import Remembered
from headgate.errors import StorageDown
from headgate.feed import Position

router = APIRouter(tags=["health"], include_in_schema=False)


@router.get("/healthz")
async def healthz() -> Response:
    return reply({"status": "ok"})


@router.get("/readyz")
def readyz(request: Request) -> Response:
    head_now: Remembered[Position] = request.app.state.head_now
    try:
        head = head_now.get()
    except StorageDown:
        told = {"status": "not ready", "database": "does not answer"}
        return reply(told, 503, {"Retry-After": str(STORAGE_RETRY_S)})
    return reply({"status": "ready", "database": "ok", "version": str(head)})


@router.get("/metrics")
def metrics(request: Request) -> Response:
    metrics_now: Remembered[str] = request.app.state.metrics_now
    return Response(metrics_now.get(), 200, {"Cache-Control": "no-store"}, "text/plain; version=0.0.4; charset=utf-8")
