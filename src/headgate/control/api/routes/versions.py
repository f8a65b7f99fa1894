"""`/versions`, `/diff`, `/rollback`: what changed, when, by whom and why; and the way back."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.responses import Response

from headgate.control.api import asked, described, models
from headgate.control.api.admission import Admin, Viewer
from headgate.control.api.answers import CHANGES_MAX, reply, show_change, time_text
from headgate.control.api.applied import applied_reply
from headgate.control.api.call import Call
from headgate.control.api.described import CHANGE_HEADERS, answers, takes
from headgate.control.api.options import Changing, Page, how
from headgate.control.api.problems import not_there
from headgate.control.api.router import api_router
from headgate.feed import Kind
from headgate.storage.sql import Version, history

router = api_router("versions")

_NUMBER_MAX = 2**53
V = Annotated[int, Path(ge=1, le=_NUMBER_MAX, description="A version.")]


@router.get("/versions", responses=answers({200: described.model(models.Page[models.Version], "The newest first")}))
def list_versions(call: Viewer, page: Page) -> Response:
    before = page.after(call, "versions")
    with call.services.database.read() as tx:
        found = history.versions(tx, limit=page.limit + 1, before=None if before is None else int(before))
    return reply(page.page(call, "versions", found, lambda one: str(one.version), show_version))


@router.get("/versions/{v}", responses=answers({200: described.model(models.Version, "The version")}, 404))
def show_one_version(call: Viewer, v: V) -> Response:
    with call.services.database.read() as tx:
        found = history.version(tx, v)
    if found is None:
        raise not_there(f"version {v}")
    return reply(show_version(found))


@router.get(
    "/versions/{v}/changes",
    responses=answers({200: described.model(models.Page[models.ChangeShown], "What it changed")}, 404),
)
def version_changes(call: Viewer, page: Page, v: V) -> Response:
    listing = f"changes {v}"
    text = page.after(call, listing)
    after = None if text is None else _entry_place(text)
    with call.services.database.read() as tx:
        if history.version(tx, v) is None:
            raise not_there(f"version {v}")
        found = history.changes(tx, v, limit=page.limit + 1, after=after)
    return reply(page.page(call, listing, found, lambda one: f"{int(one.kind)} {one.id}", show_change))


@router.get("/diff", responses=answers({200: described.model(models.Diff, "What differs")}, 404))
async def diff(
    call: Viewer,
    from_: Annotated[int, Query(alias="from", ge=0, le=_NUMBER_MAX, description="A version; 0 is before the first.")],
    to: Annotated[int | None, Query(ge=0, le=_NUMBER_MAX, description="A version; the newest unless given.")] = None,
) -> Response:
    """What lies between two versions: every entry that differs, as it was and as it is."""
    return await call.inside.turns.copies.run(functools.partial(_diff, call, from_, to))


def _diff(call: Call, from_: int, to: int | None) -> Response:
    newest = call.inside.head().version if to is None else to
    found = call.services.changes.diff(from_, newest, limit=CHANGES_MAX)
    shown = [show_change(one) for one in found.changes]
    return reply({"from": found.since, "to": found.to, "changes": shown, "more": found.more})


@router.post(
    "/rollback",
    responses=answers(
        {200: described.model(models.Applied | models.AppliedDry, "Rolled back", CHANGE_HEADERS)}, 404, 413, 415
    ),
    openapi_extra=takes(described.ref("Rollback"), examples={"rollback": {"version": 12}}),
)
def roll_back(call: Admin, change: Changing) -> Response:
    """Make the state of a version the state again, as a new version. Keys and tokens stay as they are."""
    wanted = asked.checked(asked.Rollback, call.object())
    return applied_reply(call.services.changes.rollback(wanted.version, **how(call, change)))


def show_version(one: Version) -> dict[str, Any]:
    return {
        "version": one.version,
        "epoch": one.epoch,
        "at": time_text(one.at),
        "who": one.who,
        "why": one.why,
        "verb": one.verb,
        "changes": one.changes,
    }


def _entry_place(text: str) -> tuple[Kind, str]:
    kind, _, id = text.partition(" ")
    return Kind(int(kind)), id
