"""What the routes of all kinds of entries share: showing, listing, replacing, history."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from headgate.control.api import described
from headgate.control.api.answers import etag, outcome_reply, reply, show, show_change, time_text
from headgate.control.api.call import JSON, MERGE_PATCH, Call
from headgate.control.api.models import HistoryItem, Page
from headgate.control.api.options import Change, Paging, how
from headgate.control.api.problems import Problem
from headgate.control.change import Expect
from headgate.control.errors import Exists, NotThere
from headgate.feed import Kind
from headgate.storage.sql import Step, Stored, entries, history

Shown = Callable[[Stored], dict[str, Any]]

HISTORY = described.model(Page[HistoryItem], "A page of its history, the newest first")


def version_only(expect: Expect) -> int | None:
    """Verbs that need the entry to be there anyway have no use for `*`."""
    return expect if isinstance(expect, int) else None


def is_verb(call: Call, suffix: str) -> bool:
    """A colon that is escaped is part of a name: a rule may be called `a:history`."""
    raw: bytes = call.request.scope.get("raw_path") or call.request.scope["path"].encode()
    return raw.partition(b"?")[0].endswith(suffix.encode())


def show_entry(call: Call, kind: Kind, id: str, shown: Shown = show) -> Response:
    with call.services.database.read() as tx:
        stored = entries.get(tx, kind, id)
    if stored is None:
        raise NotThere(kind, id)
    return reply(shown(stored), 200, {"ETag": etag(stored.version)})


def list_entries(
    call: Call,
    page: Paging,
    kind: Kind,
    given: Mapping[str, str | None],
    *,
    search: str | None = None,
    shown: Shown = show,
) -> Response:
    filters = {name: value for name, value in given.items() if value is not None}
    # A cursor is good for the list it came from, with the same filters.
    listing = json.dumps([kind.word, filters, search], sort_keys=True)
    after = page.after(call, listing)
    with call.services.database.read() as tx:
        found = entries.page(tx, kind, limit=page.limit + 1, after=after, filters=filters, search=search)
    return reply(page.page(call, listing, found, lambda stored: stored.id, shown))


def put_entry(
    call: Call,
    change: Change,
    expect: Expect,
    kind: Kind,
    id: str,
    body: Mapping[str, Any],
) -> Response:
    try:
        outcome = call.services.changes.replace(kind, id, body, expect=expect, **how(call, change))
    except Exists as error:
        # Only If-None-Match asks for that, and says so with this status.
        raise Problem(412, str(error)) from None
    made = any(one.before is None and one.id == id for one in outcome.changes)
    location = quote(call.request.scope["path"])
    return outcome_reply(outcome, status=201 if made else 200, location=location)


def patch_entry(call: Call, change: Change, expect: Expect, kind: Kind, id: str, shown: Shown = show) -> Response:
    patch = call.object(media=(MERGE_PATCH, JSON))
    outcome = call.services.changes.patch(kind, id, patch, expect=version_only(expect), **how(call, change))
    return outcome_reply(outcome, shown=shown)


def delete_entry(call: Call, change: Change, expect: Expect, kind: Kind, id: str) -> Response:
    return outcome_reply(call.services.changes.delete(kind, id, expect=version_only(expect), **how(call, change)))


def history_page(call: Call, page: Paging, kind: Kind, id: str) -> Response:
    listing = f"history {kind.word} {id}"
    after = page.after(call, listing)
    with call.services.database.read() as tx:
        found = history.of(tx, kind, id, limit=page.limit + 1, before=None if after is None else int(after))
    return reply(page.page(call, listing, found, lambda step: str(step.version.version), _show_step))


def _show_step(step: Step) -> dict[str, Any]:
    version, change = step.version, show_change(step.change)
    return {
        "version": version.version,
        "at": time_text(version.at),
        "who": version.who,
        "why": version.why,
        "verb": version.verb,
        "before": change["before"],
        "after": change["after"],
    }
