"""What many routes take beside their own: pages, the why of a change, dry runs, conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from fastapi import Depends, Header, Query, Request

from headgate.control.api.call import Call
from headgate.control.api.cursors import CURSOR_CHARS_MAX
from headgate.control.api.door import trace_of
from headgate.control.api.problems import Problem
from headgate.control.change import ABSENT, PRESENT, Expect

WHY_CHARS_MAX = 1_000
PAGE_DEFAULT = 100
PAGE_MAX = 1_000
VALUE_CHARS_MAX = 1_024

T = TypeVar("T")
YesNo = Literal["true", "false"]
Filter = Annotated[str | None, Query(min_length=1, max_length=VALUE_CHARS_MAX)]

_ETAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*')
_VERSION = re.compile(r"v([1-9][0-9]{0,17})\Z")


@dataclass(frozen=True, slots=True)
class Change:
    """How a change is to be made: why, and whether at all."""

    why: str | None
    dry_run: bool


def _change(
    request: Request,
    why: Annotated[
        str | None, Query(max_length=WHY_CHARS_MAX, description="Kept in the history, beside who and when.")
    ] = None,
    dry_run: Annotated[YesNo, Query(description="Say what would change, and change nothing.")] = "false",
    x_headgate_why: Annotated[
        str | None, Header(max_length=WHY_CHARS_MAX, description="As `why`, which goes before it.")
    ] = None,
) -> Change:
    reason = why if why is not None else _header_text(x_headgate_why)
    trace = trace_of(request.scope)
    trace.why, trace.dry_run = reason, dry_run == "true"
    return Change(reason or None, dry_run == "true")


Changing = Annotated[Change, Depends(_change)]


class How(TypedDict):
    """What every verb of `Changes` is told."""

    by: str
    why: str | None
    dry_run: bool


def how(call: Call, change: Change) -> How:
    return {"by": call.caller.name, "why": change.why, "dry_run": change.dry_run}


def _header_text(value: str | None) -> str | None:
    """Headers are bytes; most clients mean UTF-8."""
    if value is None:
        return None
    try:
        text = value.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        text = value
    if not text.isprintable():
        message = "holds a control character"
        raise Problem(422, f"X-Headgate-Why {message}", errors=[("header.X-Headgate-Why", message)])
    return text


@dataclass(frozen=True, slots=True)
class Paging:
    limit: int
    cursor: str | None

    def after(self, call: Call, listing: str) -> str | None:
        return None if self.cursor is None else call.inside.cursors.open(listing, self.cursor)

    def page(
        self, call: Call, listing: str, found: Sequence[T], key: Callable[[T], str], show: Callable[[T], Any]
    ) -> dict[str, Any]:
        """`found` holds one more than a page when there is another."""
        items = found[: self.limit]
        more = len(found) > self.limit
        return {
            "items": [show(item) for item in items],
            "next": call.inside.cursors.seal(listing, key(items[-1])) if more else None,
        }


def _paging(
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="How many at most.")] = PAGE_DEFAULT,
    cursor: Annotated[
        str | None, Query(max_length=CURSOR_CHARS_MAX, description="The `next` of the page before.")
    ] = None,
) -> Paging:
    return Paging(limit, cursor)


Page = Annotated[Paging, Depends(_paging)]


def _condition(
    if_match: Annotated[
        str | None, Header(max_length=200, description='The `ETag` it was read with, such as `"v12"`; `*`: any.')
    ] = None,
) -> Expect:
    """What If-Match says must be true of an entry."""
    if if_match is None:
        return None
    if if_match.strip() == "*":
        return PRESENT
    found = _ETAG.fullmatch(if_match)
    if found is None:
        message = 'expected one ETag, such as "v12", or *'
        raise Problem(400, f"If-Match: {message}", errors=[("header.If-Match", message)])
    version = _VERSION.match(found[2])
    if found[1] or version is None:
        raise Problem(412, "If-Match names a version that nothing here has had; read it again")
    return int(version[1])


IfMatch = Annotated[Expect, Depends(_condition)]


def _absent(
    expect: IfMatch,
    if_none_match: Annotated[
        str | None, Header(max_length=200, description="`*`: only if it is not there yet.")
    ] = None,
) -> Expect:
    if if_none_match is None:
        return expect
    if if_none_match.strip() != "*" or expect is not None:
        message = "only * is taken, and not beside If-Match"
        raise Problem(400, f"If-None-Match: {message}", errors=[("header.If-None-Match", message)])
    return ABSENT


Condition = Annotated[Expect, Depends(_absent)]
