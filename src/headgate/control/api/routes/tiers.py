"""`/tiers`: the names a tier may have. Once there is one, rules and overrides may name no others."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from headgate.control.api import described, models
from headgate.control.api.admission import Editor, Viewer
from headgate.control.api.described import CHANGED_HEADERS, ENTRY_HEADERS, answers, takes
from headgate.control.api.entries import delete_entry, list_entries, put_entry, show_entry
from headgate.control.api.options import Changing, Condition, IfMatch, Page
from headgate.control.api.router import api_router
from headgate.feed import Kind

router = api_router("tiers")

Name = Annotated[str, Path(min_length=1, max_length=128)]


@router.get("/tiers", responses=answers({200: described.model(models.Page[models.Tier], "A page of tiers")}))
def list_tiers(call: Viewer, page: Page) -> Response:
    return list_entries(call, page, Kind.TIER, {})


@router.get(
    "/tiers/{name:path}", responses=answers({200: described.model(models.Tier, "The tier", ENTRY_HEADERS)}, 404)
)
def show_tier(call: Viewer, name: Name) -> Response:
    return show_entry(call, Kind.TIER, name)


@router.put(
    "/tiers/{name:path}",
    responses=answers(
        {
            200: described.model(models.Tier | models.DryRun, "The tier as it is now", CHANGED_HEADERS),
            201: described.model(models.Tier, "Made", CHANGED_HEADERS),
        },
        412,
        413,
        415,
    ),
    openapi_extra=takes(
        described.ref("TierAsked"), required=False, examples={"tier": {"description": "Customers who pay"}}
    ),
)
def put_tier(call: Editor, change: Changing, expect: Condition, name: Name) -> Response:
    return put_entry(call, change, expect, Kind.TIER, name, {"name": name} | call.object(optional=True))


@router.delete(
    "/tiers/{name:path}",
    status_code=204,
    responses=described.deleted(404, 409, 412),
)
def delete_tier(call: Editor, change: Changing, expect: IfMatch, name: Name) -> Response:
    """A tier that rules, overrides or keys name cannot go."""
    return delete_entry(call, change, expect, Kind.TIER, name)
