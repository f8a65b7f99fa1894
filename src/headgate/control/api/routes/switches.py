"""`/switches`: the kill switch. A rule, or every rule, is turned to shadow until the switch is taken away."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from headgate.control.api import described, models
from headgate.control.api.admission import Editor, Viewer
from headgate.control.api.answers import outcome_reply
from headgate.control.api.described import CHANGED_HEADERS, answers
from headgate.control.api.entries import list_entries, show_entry
from headgate.control.api.options import Changing, Page, how
from headgate.control.api.router import api_router
from headgate.feed import Kind

router = api_router("emergency")

Id = Annotated[str, Path(min_length=1, max_length=128, description="A rule's name, or `*` for all.")]


@router.get("/switches", responses=answers({200: described.model(models.Page[models.Switch], "A page of switches")}))
def list_switches(call: Viewer, page: Page) -> Response:
    return list_entries(call, page, Kind.SWITCH, {})


@router.get("/switches/{id:path}", responses=answers({200: described.model(models.Switch, "The switch")}, 404))
def show_switch(call: Viewer, id: Id) -> Response:
    return show_entry(call, Kind.SWITCH, id)


@router.put(
    "/switches/{id:path}",
    responses=answers({200: described.model(models.Switch | models.DryRun, "In shadow", CHANGED_HEADERS)}, 404),
)
def put_switch(call: Editor, change: Changing, id: Id) -> Response:
    """Turn the rule to shadow: counted and reported, never refusing."""
    return outcome_reply(call.services.changes.switch(id, **how(call, change)))


@router.delete(
    "/switches/{id:path}",
    status_code=204,
    responses=described.deleted(404),
)
def delete_switch(call: Editor, change: Changing, id: Id) -> Response:
    """Enforce again."""
    return outcome_reply(call.services.changes.unswitch(id, **how(call, change)))
