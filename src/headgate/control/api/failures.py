"""Every way a call can fail, as a problem: the one place where errors become statuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headgate.control import errors
from headgate.control.api.answers import etag
from headgate.control.api.call_counts import CallCounts
from headgate.control.api.door import allowed_methods, trace_of
from headgate.control.api.problems import STORAGE_RETRY_S, Problem, problem_response
from headgate.errors import ConfigError, OutcomeUnknown, StorageDown, format_path

_STATUSES: dict[type[errors.ChangeError], int] = {
    errors.Invalid: 422,
    errors.NotThere: 404,
    errors.Exists: 409,
    errors.Stale: 412,
    errors.Moved: 412,
    errors.InUse: 409,
    errors.NoSuchVersion: 404,
    errors.AlreadyRevoked: 409,
    errors.NoKeySecret: 409,
    errors.BackupError: 422,
}


def add_handlers(app: FastAPI, counts: CallCounts) -> None:
    """On the event loop all of them: an error must not wait for a free thread."""

    async def problem(_: Request, error: Problem) -> Response:
        return error.response()

    async def refused(_: Request, error: errors.ChangeError) -> Response:
        status = next((_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES), 409)
        listed = error.mistakes if isinstance(error, errors.Invalid) else ()
        headers = {}
        if isinstance(error, errors.Stale) and error.version is not None:
            headers["ETag"] = etag(error.version)
        return problem_response(status, str(error), errors=listed, headers=headers)

    async def unfit(_: Request, error: ConfigError) -> Response:
        return problem_response(422, str(error), errors=[("", str(error))])

    async def storage_down(request: Request, error: StorageDown) -> Response:
        counts.count_storage_error()
        # Where the database is, is nobody's business who has not shown a token.
        words = str(error) if trace_of(request.scope).who is not None else "the database does not answer"
        outcome = "" if isinstance(error, OutcomeUnknown) else "; nothing was changed"
        return problem_response(
            503,
            f"{words}{outcome}. Nodes go on with what they have",
            headers={"Retry-After": str(STORAGE_RETRY_S)},
            title="The database does not answer",
        )

    async def routed(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            allowed = allowed_methods(app.router.routes, request.scope)
            detail = f"{request.method} is not answered here; expected one of {', '.join(allowed)}"
            return problem_response(405, detail, headers={"Allow": ", ".join(allowed)})
        detail = "there is nothing here" if error.status_code == 404 else str(error.detail)
        return problem_response(error.status_code, detail, headers=error.headers)

    async def invalid(_: Request, error: RequestValidationError) -> Response:
        listed = [(_path(one["loc"]), str(one["msg"])) for one in error.errors()]
        detail = "; ".join(f"{path}: {message}" for path, message in listed[:3])
        return problem_response(422, detail, errors=listed)

    handlers: dict[type[Exception], Callable[[Request, Any], Awaitable[Response]]] = {
        Problem: problem,
        errors.ChangeError: refused,
        StorageDown: storage_down,
        ConfigError: unfit,
        HTTPException: routed,
        RequestValidationError: invalid,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


def _path(place: tuple[str | int, ...]) -> str:
    return format_path(tuple(place))
