"""Who may come in: tokens, roles, the API's own limits, and queries that say only what a route knows."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from starlette.types import Scope

from headgate.control.api.call import Call, Inside
from headgate.control.api.door import trace_of
from headgate.control.api.problems import Problem
from headgate.control.tokens import Caller, Refusal, Role

QUERY_BYTES_MAX = 8_192
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CHALLENGE = 'Bearer realm="headgate"'


class Admission:
    """A dependency: lets in callers of a role and above, and gives the `Call`. It must be a route's first one."""

    def __init__(self, role: Role) -> None:
        self.role = role

    def __call__(self, request: Request) -> Call:
        inside: Inside = request.app.state.inside
        caller = _known(request, inside)
        trace = trace_of(request.scope)
        trace.who = caller.name
        # The route's own path: what stands in a request's may be made to look like another's, and so may its Host.
        inside.limits.check(caller.id, request.method, request.scope["route"].path_format)
        if caller.role < self.role:
            trace.refusal = "role"
            raise Problem(
                403, f"this takes the role {self.role.word}; the token `{caller.name}` has the role {caller.role.word}"
            )
        _check_query(request)
        return Call(request, inside, caller)


Viewer = Annotated[Call, Depends(Admission(Role.VIEWER))]
Editor = Annotated[Call, Depends(Admission(Role.EDITOR))]
Admin = Annotated[Call, Depends(Admission(Role.ADMIN))]


def role_of(route: Any) -> Role | None:
    """The role a route asks for; None when it is open to all."""
    dependant: Dependant | None = getattr(route, "dependant", None)
    for needed in dependant.dependencies if dependant else ():
        if isinstance(needed.call, Admission):
            return needed.call.role
    return None


def bearer(scope: Scope) -> str | None:
    """The token of an Authorization header; an empty text when there is a header of another kind."""
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    if not found:
        return None
    kind, _, text = found[0].decode("latin-1").partition(" ")
    return text.strip() if len(found) == 1 and kind.lower() == "bearer" else ""


def address_of(request: Request) -> str | None:
    return request.client.host if request.client else None


def _known(request: Request, inside: Inside) -> Caller:
    text = bearer(request.scope)
    known = inside.doorman.remembered(text)
    if known is not None:
        return known
    # Whoever guesses is turned away before the database is asked about it. Others may have the same address (a proxy's,
    # an office's), and must not be locked out by it.
    address = address_of(request)
    try:
        inside.limits.check_address(address)
    except Problem:
        if not inside.doorman.holds_one(text):
            raise
    found = inside.doorman.admit(text) if text or text is None else Refusal.MALFORMED
    if isinstance(found, Caller):
        return found
    inside.limits.count_failure(address)
    trace_of(request.scope).refusal = found.value
    raise unauthorised(found)


def unauthorised(refusal: Refusal) -> Problem:
    if refusal is Refusal.MISSING:
        detail = "this needs a token: send Authorization: Bearer hga_…"
        return Problem(401, detail, headers={"WWW-Authenticate": _CHALLENGE})
    # Whether a token was ever good is told to nobody who does not hold it; expired and revoked ones prove they do.
    ended = refusal in (Refusal.EXPIRED, Refusal.REVOKED)
    detail = f"this token has ended ({refusal.value}); ask for another" if ended else "this token is not known here"
    return Problem(401, detail, headers={"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'})


def _check_query(request: Request) -> None:
    if len(request.scope["query_string"]) > QUERY_BYTES_MAX:
        raise Problem(414, f"the query is longer than {QUERY_BYTES_MAX} bytes")
    known = _query_names(request.scope["route"].dependant)
    errors, seen = [], set()
    for name, value in request.query_params.multi_items():
        path = f"query.{name}"
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            errors.append((path, f"is not a parameter of this route; known: {listed}"))
        elif name in seen:
            errors.append((path, "is given twice; keep one"))
        elif _CONTROL.search(value):
            errors.append((path, "holds a control character"))
        seen.add(name)
    if errors:
        raise Problem(422, "; ".join(f"{path}: {message}" for path, message in errors[:3]), errors=errors)


def _query_names(dependant: Dependant) -> frozenset[str]:
    names = {field.alias for field in dependant.query_params}
    return frozenset(names).union(*(_query_names(inner) for inner in dependant.dependencies))
