"""`/tokens`, `/me`, `/calls`: who may use this API, and who did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.responses import Response

from headgate.control.api import asked, described, models
from headgate.control.api.admission import Admin, Viewer
from headgate.control.api.answers import reply, time_text
from headgate.control.api.described import answers, takes
from headgate.control.api.door import trace_of
from headgate.control.api.expiry import end_of
from headgate.control.api.options import Filter, Page
from headgate.control.api.problems import Problem, not_there, unprocessable
from headgate.control.api.router import api_router
from headgate.control.tokens import NAME_BYTES_MAX, OWN_NAME, Role, new_token, state
from headgate.storage.sql import calls, tokens
from headgate.storage.sql.calls import CallRow
from headgate.storage.sql.tokens import TokenRow

router = api_router("tokens")

Id = Annotated[str, Path(min_length=1, max_length=64, pattern="^[A-Za-z0-9._-]+$")]


@router.get("/me", responses=answers({200: described.model(models.Me, "Whose token this is")}))
def me(call: Viewer) -> Response:
    with call.services.database.read() as tx:
        head = tx.head
    caller = call.caller
    shown = {"id": caller.id, "name": caller.name, "role": caller.role.word, "expires": time_text(caller.expires)}
    return reply(shown | {"head": str(head)})


@router.get("/tokens", responses=answers({200: described.model(models.Page[models.Token], "A page of tokens")}))
def list_tokens(call: Admin, page: Page) -> Response:
    after = page.after(call, "tokens")
    with call.services.database.read() as tx:
        found = tokens.page(tx, limit=page.limit + 1, after=after)
    return reply(page.page(call, "tokens", found, lambda row: row.id, show_token))


@router.post(
    "/tokens",
    status_code=201,
    responses=answers({201: described.model(models.TokenMade, "Made")}, 413, 415),
    openapi_extra=takes(
        described.ref("TokenAsked"), examples={"token": {"name": "ci", "role": "editor", "expires": "90d"}}
    ),
)
def create_token(call: Admin) -> Response:
    """Make a token. Its text is in the answer, once; only its hash is kept."""
    wanted = asked.checked(asked.TokenAsked, call.object())
    if not wanted.name.isprintable() or not wanted.name.strip() or len(wanted.name.encode()) > NAME_BYTES_MAX:
        message = f"must be one line of text, at most {NAME_BYTES_MAX} bytes"
        raise unprocessable(f"name: {message}", ("name", message))
    if wanted.name.lower() == OWN_NAME:
        message = f"`{OWN_NAME}` is what the history calls this program itself; choose another name"
        raise unprocessable(f"name: {message}", ("name", message))
    made = new_token(
        wanted.name,
        Role.of(wanted.role),
        by=call.caller.name,
        expires=None if wanted.expires is None else end_of(wanted.expires),
    )
    with call.services.database.aside() as tx:
        tokens.add(tx, made.row)
    trace_of(call.request.scope).why = f"token {made.row.id}"
    headers = {"Location": f"/api/v1/tokens/{made.row.id}"}
    return reply(show_token(made.row) | {"token": made.text}, 201, headers)


@router.get("/tokens/{id}", responses=answers({200: described.model(models.Token, "The token")}, 404))
def show_one_token(call: Admin, id: Id) -> Response:
    with call.services.database.read() as tx:
        row = tokens.get(tx, id)
    if row is None:
        raise not_there(f"token {id}")
    return reply(show_token(row))


@router.post("/tokens/{id}:revoke", responses=answers({200: described.model(models.Token, "Revoked")}, 404, 409))
def revoke_token(call: Admin, id: Id) -> Response:
    """End a token, at once. The last good one for everything cannot be revoked: nobody could make another."""
    now = datetime.now(UTC)
    with call.services.database.write() as tx:
        row = tokens.get(tx, id)
        if row is None:
            raise not_there(f"token {id}")
        if (
            state(row, now) == "active"
            and row.role == Role.ADMIN.word
            and not tokens.has_another(tx, id, row.role, now)
        ):
            raise Problem(409, f"token {id} is the last one with the role admin; make another before you revoke it")
        tokens.revoke(tx, id, now, call.caller.name)
        row = tokens.get(tx, id) or row
    call.inside.doorman.forget(id)
    return reply(show_token(row))


@router.get("/calls", responses=answers({200: described.model(models.Page[models.CallShown], "The newest first")}))
def list_calls(
    call: Admin,
    page: Page,
    who: Filter = None,
    status: Annotated[int | None, Query(ge=100, le=599)] = None,
) -> Response:
    """Every call that changed something or was refused for want of authority, for 90 days."""
    listing = f"calls {who} {status}"
    before = page.after(call, listing)
    with call.services.database.read() as tx:
        found = calls.page(
            tx, limit=page.limit + 1, before=None if before is None else int(before), who=who, status=status
        )
    return reply(page.page(call, listing, found, lambda row: str(row.id), show_call))


def show_token(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "created": time_text(row.created),
        "created_by": row.created_by,
        "expires": time_text(row.expires),
        "revoked": time_text(row.revoked),
        "revoked_by": row.revoked_by,
        "last_used": time_text(row.last_used),
        "state": state(row, datetime.now(UTC)),
    }


def show_call(row: CallRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": time_text(row.at),
        "who": row.who,
        "method": row.method,
        "path": row.path,
        "status": row.status,
        "address": row.address,
        "why": row.why,
    }
