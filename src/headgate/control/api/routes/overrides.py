"""`/overrides`: what one user, org or API key gets instead of everybody's share."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path
from starlette.responses import Response

from headgate.control.api import described
from headgate.control.api.admission import Editor, Viewer
from headgate.control.api.call import JSON, MERGE_PATCH
from headgate.control.api.described import ENTRY_HEADERS, answers, takes
from headgate.control.api.entries import (
    HISTORY,
    delete_entry,
    history_page,
    is_verb,
    list_entries,
    patch_entry,
    put_entry,
    show_entry,
)
from headgate.control.api.options import Changing, Condition, Filter, IfMatch, Page, YesNo
from headgate.control.api.router import api_router
from headgate.feed import Kind

router = api_router("overrides")

Principal = Annotated[Literal["user", "org", "api_key"], Path(description="What it is for.")]
Value = Annotated[str, Path(min_length=1, max_length=1024, description="Whose: an id. It may hold `/`.")]
_OVERRIDE = described.ref("Override")
_CHANGED = described.changed("Override", "The override as it is now")
_MADE = described.made("Override")


@router.get("/overrides", responses=answers({200: described.schema(described.page_of("Override"), "A page")}))
def list_overrides(
    call: Viewer,
    page: Page,
    user: Filter = None,
    org: Filter = None,
    api_key: Filter = None,
    tier: Filter = None,
    blocked: YesNo | None = None,
) -> Response:
    given = {"user": user, "org": org, "api_key": api_key, "tier": tier, "blocked": blocked}
    return list_entries(call, page, Kind.OVERRIDE, given)


@router.get("/overrides/{principal}/{value:path}:history", responses=answers({200: HISTORY}))
def override_history(call: Viewer, page: Page, principal: Principal, value: Value) -> Response:
    if not is_verb(call, ":history"):
        return show_entry(call, Kind.OVERRIDE, f"{principal}:{value}:history")
    return history_page(call, page, Kind.OVERRIDE, f"{principal}:{value}")


@router.get(
    "/overrides/{principal}/{value:path}",
    responses=answers({200: described.schema(_OVERRIDE, "The override", ENTRY_HEADERS)}, 404),
)
def show_override(call: Viewer, principal: Principal, value: Value) -> Response:
    return show_entry(call, Kind.OVERRIDE, f"{principal}:{value}")


@router.put(
    "/overrides/{principal}/{value:path}",
    responses=answers({200: _CHANGED, 201: _MADE}, 412, 413, 415),
    openapi_extra=takes(
        described.ref("OverrideAsked"),
        examples={"tier": {"tier": "premium"}, "limit": {"limit": "20000/hour", "description": "Agreed in May"}},
    ),
)
def put_override(call: Editor, change: Changing, expect: Condition, principal: Principal, value: Value) -> Response:
    """The whole override. Whose it is stands in the path, and need not be said again."""
    body = {principal: value} | call.object()
    return put_entry(call, change, expect, Kind.OVERRIDE, f"{principal}:{value}", body)


@router.patch(
    "/overrides/{principal}/{value:path}",
    responses=answers({200: _CHANGED}, 404, 412, 413, 415),
    openapi_extra=takes({"type": "object"}, media=(MERGE_PATCH, JSON), examples={"limit": {"limit": "500/hour"}}),
)
def patch_override(call: Editor, change: Changing, expect: IfMatch, principal: Principal, value: Value) -> Response:
    """A JSON merge patch (RFC 7396)."""
    return patch_entry(call, change, expect, Kind.OVERRIDE, f"{principal}:{value}")


@router.delete(
    "/overrides/{principal}/{value:path}",
    status_code=204,
    responses=described.deleted(404, 412),
)
def delete_override(call: Editor, change: Changing, expect: IfMatch, principal: Principal, value: Value) -> Response:
    return delete_entry(call, change, expect, Kind.OVERRIDE, f"{principal}:{value}")
