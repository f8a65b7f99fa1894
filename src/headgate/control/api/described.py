"""How routes describe themselves: short words for what OpenAPI says at length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.control.api.models import DryRun, ProblemBody

JSON = "application/json"
PROBLEM = "application/problem+json"

Answers = dict[int | str, dict[str, Any]]

_PHRASES = {
    400: "The request cannot be understood",
    401: "No good token",
    403: "The token's role does not allow it",
    404: "Not there",
    408: "The body did not come in time",
    409: "It exists already, or is in use",
    412: "Changed by someone else since it was read",
    413: "Too large",
    414: "The path or the query is too long",
    415: "A media type that is not taken here",
    422: "Understood, and wrong; `errors` says where",
    429: "Too many calls; `Retry-After` says how long to wait",
    500: "Something went wrong inside; the log has it under the number told",
    503: "The database does not answer; `Retry-After` says when to try again",
}
# What any call of any route may meet.
EVERYWHERE = (400, 401, 403, 414, 422, 429, 500, 503)

ENTRY_HEADERS = {
    "ETag": {"description": "The version of the entry, for If-Match.", "schema": {"type": "string"}},
}
CHANGE_HEADERS = {
    "X-Headgate-Version": {
        "description": "The position of the configuration that holds the change: `epoch.version`.",
        "schema": {"type": "string", "pattern": r"^\d+\.\d+$"},
    },
}
# Of the entry that a change leaves.
CHANGED_HEADERS = ENTRY_HEADERS | CHANGE_HEADERS


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def page_of(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items", "next"],
        "properties": {"items": {"type": "array", "items": ref(name)}, "next": {"type": ["string", "null"]}},
    }


def schema(content: Mapping[str, Any], what: str, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An answer by its schema."""
    described: dict[str, Any] = {"description": what, "content": {JSON: {"schema": dict(content)}}}
    return described | ({"headers": dict(headers)} if headers else {})


def model(kind: Any, what: str, headers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An answer by its model."""
    return {"model": kind, "description": what} | ({"headers": dict(headers)} if headers else {})


def changed(name: str, what: str) -> dict[str, Any]:
    """An entry as it is now; of a dry run, what would change."""
    return schema({"anyOf": [ref(name), ref(DryRun.__name__)]}, what, CHANGED_HEADERS)


def made(name: str) -> dict[str, Any]:
    return schema(ref(name), "Made", CHANGED_HEADERS)


def gone() -> dict[str, Any]:
    return {"description": "Gone", "headers": CHANGE_HEADERS}


def deleted(*statuses: int) -> Answers:
    """What a route answers that takes an entry away."""
    return answers({204: gone(), 200: model(DryRun, "Of a dry run")}, *statuses)


def answers(good: Answers, *statuses: int) -> Answers:
    """What a route answers: when all is well, and each status it may refuse with beside those of every route."""
    # A route that reads a body may be kept waiting for it.
    slow = (408,) if 413 in statuses else ()
    return {**good, **{status: problem(status) for status in sorted({*EVERYWHERE, *statuses, *slow})}}


def problem(status: int) -> dict[str, Any]:
    return {
        "description": _PHRASES[status],
        "content": {PROBLEM: {"schema": ref(ProblemBody.__name__)}},
    }


def takes(
    content: Mapping[str, Any],
    *,
    media: tuple[str, ...] = (JSON,),
    required: bool = True,
    examples: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body a route reads. It is read by our own strict reader, so FastAPI only documents it."""
    shown: dict[str, Any] = {"schema": dict(content)}
    if examples:
        shown["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"requestBody": {"required": required, "content": dict.fromkeys(media, shown)}}
