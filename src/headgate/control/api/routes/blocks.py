"""`/blocks`: refuse an address, a range, a user, an org or an API key everywhere, at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path
from starlette.responses import Response

from headgate.control.api import described, models
from headgate.control.api.admission import Editor, Viewer
from headgate.control.api.answers import outcome_reply, show
from headgate.control.api.described import CHANGED_HEADERS, ENTRY_HEADERS, answers, takes
from headgate.control.api.entries import list_entries, show_entry
from headgate.control.api.options import Changing, Filter, Page, YesNo, how
from headgate.control.api.router import api_router
from headgate.feed import Kind
from headgate.storage.sql import Stored

router = api_router("emergency")

Id = Annotated[str, Path(min_length=1, max_length=64, pattern="^[A-Za-z0-9._-]+$")]


@router.get("/blocks", responses=answers({200: described.model(models.Page[models.Block], "A page of blocks")}))
def list_blocks(
    call: Viewer,
    page: Page,
    active: YesNo | None = None,
    ip: Filter = None,
    user: Filter = None,
    org: Filter = None,
    api_key: Filter = None,
) -> Response:
    given = {"active": active, "ip": ip, "user": user, "org": org, "api_key": api_key}
    return list_entries(call, page, Kind.BLOCK, given, shown=show_block)


@router.post(
    "/blocks",
    status_code=201,
    responses=answers(
        {
            201: described.model(models.Block, "In force", CHANGED_HEADERS),
            200: described.model(models.DryRun, "What would change, of a dry run"),
        },
        413,
        415,
    ),
    openapi_extra=takes(
        described.ref("BlockAsked"), examples={"range": {"ip": "203.0.113.0/24", "for": "1h", "why": "scraping"}}
    ),
)
def add_block(call: Editor, change: Changing) -> Response:
    """Refuse all of it, until then. Its `why` is told in the history as well, unless the call has one of its own."""
    outcome = call.services.changes.add_block(call.object(), **how(call, change))
    made = outcome.entry.id if outcome.entry else ""
    return outcome_reply(outcome, status=201, shown=show_block, location=f"/api/v1/blocks/{made}")


@router.get("/blocks/{id}", responses=answers({200: described.model(models.Block, "The block", ENTRY_HEADERS)}, 404))
def show_one_block(call: Viewer, id: Id) -> Response:
    return show_entry(call, Kind.BLOCK, id, show_block)


@router.delete(
    "/blocks/{id}",
    status_code=204,
    responses=described.deleted(404),
)
def lift_block(call: Editor, change: Changing, id: Id) -> Response:
    return outcome_reply(call.services.changes.lift_block(id, **how(call, change)))


def show_block(stored: Stored) -> dict[str, Any]:
    until = stored.body.get("until")
    active = until is None or datetime.fromisoformat(until) > datetime.now(UTC)
    return show(stored) | {"active": active}
