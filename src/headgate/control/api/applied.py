"""The answer to a change of many entries."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from headgate.control.api.answers import CHANGES_MAX, VERSION_HEADER, dry_run, reply, show_change
from headgate.control.change import Outcome


def applied_reply(outcome: Outcome) -> Response:
    counts: dict[str, Any] = {
        "created": outcome.counts.created,
        "replaced": outcome.counts.replaced,
        "deleted": outcome.counts.deleted,
        "unchanged": outcome.counts.unchanged,
    }
    if outcome.dry_run:
        return reply(dry_run(outcome) | counts | {"at": str(outcome.position)})
    body = {
        "version": str(outcome.position),
        **counts,
        "changes": [show_change(change) for change in outcome.changes[:CHANGES_MAX]],
    }
    return reply(body, 200, {VERSION_HEADER: str(outcome.position)})
