"""`/rules`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query
from starlette.responses import Response

from headgate.control.api import described
from headgate.control.api.admission import Editor, Viewer
from headgate.control.api.answers import outcome_reply, show
from headgate.control.api.call import JSON, MERGE_PATCH
from headgate.control.api.described import ENTRY_HEADERS, answers, takes
from headgate.control.api.entries import (
    HISTORY,
    delete_entry,
    history_page,
    is_verb,
    list_entries,
    patch_entry,
    put_entry,
    show_entry,
    version_only,
)
from headgate.control.api.models import DryRun
from headgate.control.api.options import Changing, Condition, Filter, IfMatch, Page, YesNo, how
from headgate.control.api.router import api_router
from headgate.feed import Kind

router = api_router("rules")

Name = Annotated[str, Path(min_length=1, max_length=128, description="The rule's name; it may hold `/`.")]
_RULE = described.ref("Rule")
_CHANGED = described.changed("Rule", "The rule as it is now")
_MADE = described.made("Rule")
_EXAMPLES = {
    "rule": {
        "name": "free-login",
        "match": {"tier": "free", "endpoint": "/api/v1/login", "method": "POST"},
        "by": "user",
        "limit": "5/minute",
    },
    "short": {"endpoint": "/api/v1/payment", "limit": 10, "window": "60s"},
}


@router.get("/rules", responses=answers({200: described.schema(described.page_of("Rule"), "A page of rules")}))
def list_rules(
    call: Viewer,
    page: Page,
    q: Annotated[str | None, Query(min_length=1, max_length=128, description="Part of the name.")] = None,
    tier: Filter = None,
    endpoint: Filter = None,
    method: Filter = None,
    user: Filter = None,
    org: Filter = None,
    api_key: Filter = None,
    ip: Filter = None,
    region: Filter = None,
    group: Filter = None,
    action: Filter = None,
    enabled: YesNo | None = None,
) -> Response:
    """Rules by name. A filter finds rules that name the value; `endpoint` is the pattern as it is written."""
    given = {
        "tier": tier,
        "endpoint": endpoint,
        "method": method,
        "user": user,
        "org": org,
        "api_key": api_key,
        "ip": ip,
        "region": region,
        "group": group,
        "action": action,
        "enabled": enabled,
    }
    return list_entries(call, page, Kind.RULE, given, search=q, shown=show)


@router.post(
    "/rules",
    status_code=201,
    responses=answers({201: _MADE, 200: described.model(DryRun, "What would change, of a dry run")}, 409, 413, 415),
    openapi_extra=takes({"anyOf": [_RULE, described.ref("ShortRule")]}, examples=_EXAMPLES),
)
def create_rule(call: Editor, change: Changing) -> Response:
    """A new rule, whole or in its short form."""
    outcome = call.services.changes.create(Kind.RULE, call.object(), **how(call, change))
    made = outcome.entry.id if outcome.entry else ""
    return outcome_reply(outcome, status=201, location=f"/api/v1/rules/{quote(made)}")


@router.get("/rules/{name:path}:history", responses=answers({200: HISTORY}))
def rule_history(call: Viewer, page: Page, name: Name) -> Response:
    """Every version that changed the rule, the newest first. A rule that is gone still has its history."""
    if not is_verb(call, ":history"):
        return show_entry(call, Kind.RULE, f"{name}:history")
    return history_page(call, page, Kind.RULE, name)


@router.post("/rules/{name:path}:enable", responses=answers({200: _CHANGED}, 404, 412))
def enable_rule(call: Editor, change: Changing, expect: IfMatch, name: Name) -> Response:
    """A rule that was disabled counts again."""
    changes = call.services.changes
    return outcome_reply(changes.enable(name, expect=version_only(expect), **how(call, change)))


@router.post("/rules/{name:path}:disable", responses=answers({200: _CHANGED}, 404, 412))
def disable_rule(call: Editor, change: Changing, expect: IfMatch, name: Name) -> Response:
    """As if the rule were absent, but kept."""
    changes = call.services.changes
    return outcome_reply(changes.disable(name, expect=version_only(expect), **how(call, change)))


@router.get("/rules/{name:path}", responses=answers({200: described.schema(_RULE, "The rule", ENTRY_HEADERS)}, 404))
def show_rule(call: Viewer, name: Name) -> Response:
    return show_entry(call, Kind.RULE, name)


@router.put(
    "/rules/{name:path}",
    responses=answers({200: _CHANGED, 201: _MADE}, 412, 413, 415),
    openapi_extra=takes(described.ref("RuleAsked"), examples={"rule": _EXAMPLES["rule"]}),
)
def put_rule(call: Editor, change: Changing, expect: Condition, name: Name) -> Response:
    """The whole rule: replaced, or made."""
    return put_entry(call, change, expect, Kind.RULE, name, call.object())


@router.patch(
    "/rules/{name:path}",
    responses=answers({200: _CHANGED}, 404, 412, 413, 415),
    openapi_extra=takes({"type": "object"}, media=(MERGE_PATCH, JSON), examples={"limit": {"limit": "20/minute"}}),
)
def patch_rule(call: Editor, change: Changing, expect: IfMatch, name: Name) -> Response:
    """A JSON merge patch (RFC 7396): what it names is replaced, what it sets to null is removed."""
    return patch_entry(call, change, expect, Kind.RULE, name)


@router.delete(
    "/rules/{name:path}",
    status_code=204,
    responses=described.deleted(404, 412),
)
def delete_rule(call: Editor, change: Changing, expect: IfMatch, name: Name) -> Response:
    return delete_entry(call, change, expect, Kind.RULE, name)
