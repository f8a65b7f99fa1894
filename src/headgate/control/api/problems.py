"""What goes wrong, as RFC 9457 says it: one body for every error of the API, whoever noticed it.

A driver's or a framework's own words never reach a client: only a `Problem`, an error of `headgate.control` or the
status a router answers with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

MEDIA = "application/problem+json"
ERRORS_MAX = 100
# How long a client should leave a database alone that does not answer.
STORAGE_RETRY_S = 5

Error = tuple[str, str]


class Problem(Exception):
    """An answer that is an error. `errors` are pairs of a field's path and what is wrong there."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Sequence[Error] = (),
        headers: Mapping[str, str] | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors = status, detail, tuple(errors)
        self.headers = dict(headers or {})
        self.title = title

    def response(self, instance: str | None = None) -> Response:
        return problem_response(
            self.status, self.detail, errors=self.errors, headers=self.headers, title=self.title, instance=instance
        )


def problem_response(
    status: int,
    detail: str,
    *,
    errors: Iterable[Error] = (),
    headers: Mapping[str, str] | None = None,
    title: str | None = None,
    instance: str | None = None,
) -> Response:
    body = problem_body(status, detail, errors=errors, title=title, instance=instance)
    # A refusal concerns one moment; nothing on the way may keep it.
    fields = {"Cache-Control": "no-store", **(headers or {})}
    return Response(json.dumps(body, ensure_ascii=False), status, fields, MEDIA)


def problem_body(
    status: int,
    detail: str,
    *,
    errors: Iterable[Error] = (),
    title: str | None = None,
    instance: str | None = None,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        "detail": _sendable(detail),
        "errors": [{"path": _sendable(path), "message": _sendable(message)} for path, message in errors][:ERRORS_MAX],
    }
    if instance is not None:
        body["instance"] = instance
    return body


def _sendable(text: str) -> str:
    """An error quotes what it was sent, which may hold halves of characters that UTF-8 cannot carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def bad_request(detail: str, *errors: Error) -> Problem:
    return Problem(400, detail, errors=errors)


def unprocessable(detail: str, *errors: Error) -> Problem:
    return Problem(422, detail, errors=errors)


def not_there(what: str) -> Problem:
    return Problem(404, f"{what} is not there")
