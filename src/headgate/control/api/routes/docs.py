"""`/api/openapi.json`, and a page made of it that fetches nothing from anywhere."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from headgate.control.api.docs_page import DocsTexts
from headgate.control.api.remembered import Remembered

router = APIRouter(prefix="/api", tags=["documentation"], include_in_schema=False)

_STRICT = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@router.get("/openapi.json")
def openapi_json(request: Request) -> Response:
    return Response(_texts(request).openapi, 200, {"Cache-Control": "no-cache"}, "application/json")


@router.get("/docs")
def docs(request: Request) -> Response:
    headers = {"Content-Security-Policy": _STRICT, "Cache-Control": "no-cache"}
    return Response(_texts(request).page, 200, headers, "text/html; charset=utf-8")


def _texts(request: Request) -> DocsTexts:
    remembered: Remembered[DocsTexts] = request.app.state.docs_now
    return remembered.get()
