"""`/keys`: API keys of those who are limited. Their values are told once, when they are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Path
from starlette.responses import Response

from headgate.control.api import asked, described, models
from headgate.control.api.admission import Admin, Viewer
from headgate.control.api.answers import outcome_reply, show, time_text
from headgate.control.api.call import JSON, MERGE_PATCH
from headgate.control.api.described import CHANGED_HEADERS, ENTRY_HEADERS, answers, takes
from headgate.control.api.entries import HISTORY, history_page, list_entries, show_entry, version_only
from headgate.control.api.expiry import with_end
from headgate.control.api.options import Changing, Filter, IfMatch, Page, how
from headgate.control.api.router import api_router
from headgate.feed import Kind
from headgate.storage.sql import Stored

router = api_router("keys")

Id = Annotated[str, Path(min_length=1, max_length=64, pattern="^[A-Za-z0-9._-]+$", description="The key's id.")]
State = Literal["active", "expired", "revoked"]
_DRY = described.model(models.DryRun, "What would change, of a dry run")
_CHANGED = described.model(models.Key | models.DryRun, "The key as it is now", CHANGED_HEADERS)


@router.get("/keys", responses=answers({200: described.model(models.Page[models.Key], "A page of keys")}))
def list_keys(
    call: Viewer, page: Page, user: Filter = None, org: Filter = None, tier: Filter = None, state: State | None = None
) -> Response:
    given = {"user": user, "org": org, "tier": tier, "state": state}
    return list_entries(call, page, Kind.KEY, given, shown=show_key)


@router.post(
    "/keys",
    status_code=201,
    responses=answers({201: described.model(models.KeyMade, "Made", CHANGED_HEADERS), 200: _DRY}, 409, 413, 415),
    openapi_extra=takes(
        described.ref("KeyAsked"),
        examples={"key": {"name": "billing service", "user": "42", "tier": "premium", "expires": "90d"}},
    ),
)
def create_key(call: Admin, change: Changing) -> Response:
    """Make a key. Its value is in the answer, once; only a keyed hash of it is kept."""
    made = call.services.changes.create_key(with_end(call.object()), **how(call, change))
    return outcome_reply(
        made.outcome, status=201, shown=show_key, extra={"key": made.value}, location=f"/api/v1/keys/{quote(made.id)}"
    )


@router.post("/keys/{id}:revoke", responses=answers({200: _CHANGED}, 404))
def revoke_key(call: Admin, change: Changing, id: Id) -> Response:
    """End a key, for good."""
    return outcome_reply(call.services.changes.revoke_key(id, **how(call, change)), shown=show_key)


@router.post(
    "/keys/{id}:rotate",
    status_code=201,
    responses=answers({201: described.model(models.KeyMade, "Made", CHANGED_HEADERS), 200: _DRY}, 404, 409, 413, 415),
    openapi_extra=takes(described.ref("RotateAsked"), required=False, examples={"grace": {"grace": "24h"}}),
)
def rotate_key(call: Admin, change: Changing, id: Id) -> Response:
    """A new key of the same owner, tier and limits. The old one ends at once, or after `grace`."""
    wanted = asked.checked(asked.RotateAsked, call.object(optional=True))
    made = call.services.changes.rotate_key(id, grace=wanted.grace, **how(call, change))
    return outcome_reply(
        made.outcome, status=201, shown=show_key, extra={"key": made.value}, location=f"/api/v1/keys/{quote(made.id)}"
    )


@router.delete("/keys/{id}", status_code=204, responses=answers({204: described.gone(), 200: _DRY}, 404, 412))
def delete_key(call: Admin, change: Changing, expect: IfMatch, id: Id) -> Response:
    """Forget a key and its limits. To end one, revoke it: its history stays in sight."""
    return outcome_reply(call.services.changes.delete_key(id, expect=version_only(expect), **how(call, change)))


@router.get("/keys/{id}:history", responses=answers({200: HISTORY}))
def key_history(call: Viewer, page: Page, id: Id) -> Response:
    return history_page(call, page, Kind.KEY, id)


@router.get("/keys/{id}", responses=answers({200: described.model(models.Key, "The key", ENTRY_HEADERS)}, 404))
def show_one_key(call: Viewer, id: Id) -> Response:
    return show_entry(call, Kind.KEY, id, show_key)


@router.patch(
    "/keys/{id}",
    responses=answers({200: _CHANGED}, 404, 409, 412, 413, 415),
    openapi_extra=takes({"type": "object"}, media=(MERGE_PATCH, JSON), examples={"tier": {"tier": "premium"}}),
)
def patch_key(call: Admin, change: Changing, expect: IfMatch, id: Id) -> Response:
    """A JSON merge patch (RFC 7396). What makes a key good or not (its hash, its id, its revocation) stays as it is."""
    patch = with_end(call.object(media=(MERGE_PATCH, JSON)))
    outcome = call.services.changes.patch_key(id, patch, expect=version_only(expect), **how(call, change))
    return outcome_reply(outcome, shown=show_key)


def show_key(stored: Stored) -> dict[str, Any]:
    return show(stored) | {"state": _state(stored.body), "last_used": time_text(stored.last_used)}


def _state(body: dict[str, Any]) -> str:
    now = datetime.now(UTC)
    if _past(body.get("revoked"), now):
        return "revoked"
    return "expired" if _past(body.get("expires"), now) else "active"


def _past(text: str | None, now: datetime) -> bool:
    return text is not None and datetime.fromisoformat(text) <= now
