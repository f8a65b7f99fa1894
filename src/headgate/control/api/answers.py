"""Entries, changes and versions as the API shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from headgate.control.change import Outcome
from headgate.feed import Kind
from headgate.storage.sql import Changed, Stored

VERSION_HEADER = "X-Headgate-Version"
# Of a bulk change the first are told; all of them are at /versions/{v}/changes.
CHANGES_MAX = 1_000


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # What is shown may be of nobody's concern but the caller's, and is old the moment someone changes it.
    return Response(text, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


def time_text(when: datetime | None) -> str | None:
    return None if when is None else when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def etag(version: int) -> str:
    return f'"v{version}"'


def show(stored: Stored) -> dict[str, Any]:
    """The body as it is kept (a key's without its hash), and `meta`: since when, and by whom."""
    return public(stored.kind, stored.body) | {"meta": meta(stored)}


def meta(stored: Stored) -> dict[str, Any]:
    return {
        "version": stored.version,
        "created": time_text(stored.created),
        "created_by": stored.created_by,
        "updated": time_text(stored.updated),
        "updated_by": stored.updated_by,
    }


def public(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
    """A hash is no secret, but nobody who reads needs it."""
    return {name: value for name, value in body.items() if kind is not Kind.KEY or name != "hash"}


def show_change(change: Changed) -> dict[str, Any]:
    return {
        "kind": change.kind.word,
        "id": change.id,
        "before": _body(change.kind, change.before),
        "after": _body(change.kind, change.after),
    }


def _body(kind: Kind, text: str | None) -> dict[str, Any] | None:
    return None if text is None else public(kind, json.loads(text))


def outcome_reply(
    outcome: Outcome,
    *,
    status: int = 200,
    shown: Callable[[Stored], dict[str, Any]] = show,
    extra: Mapping[str, Any] | None = None,
    location: str | None = None,
) -> Response:
    """The answer to a change of one entry: the entry as this very change left it, or 204 when it is gone."""
    if outcome.dry_run:
        return reply(dry_run(outcome))
    headers = {VERSION_HEADER: str(outcome.position)}
    if outcome.entry is None:
        return Response(status_code=204, headers=headers)
    if location is not None and status == 201:
        headers["Location"] = location
    headers["ETag"] = etag(outcome.entry.version)
    return reply(shown(outcome.entry) | dict(extra or {}), status, headers)


def dry_run(outcome: Outcome) -> dict[str, Any]:
    return {
        "dry_run": True,
        "changes": [show_change(change) for change in outcome.changes[:CHANGES_MAX]],
        "contests": [contest.as_dict() for contest in outcome.contests],
    }
