"""What a change would do, as a control plane's dry run tells it, for people to read before they agree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from headgate.cli.control_errors import printable

SHOWN_CHANGES_MAX = 200
SHOWN_CONTESTS_MAX = 50
SHOWN_VALUE_CHARS_MAX = 200
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Counts:
    created: int
    replaced: int
    deleted: int

    @property
    def any(self) -> bool:
        return bool(self.created or self.replaced or self.deleted)

    def told(self) -> str:
        if not self.any:
            return "nothing to change"
        pairs = ((self.created, "to create"), (self.replaced, "to replace"), (self.deleted, "to delete"))
        return ", ".join(f"{number:,} {word}" for number, word in pairs if number)


def counts(body: Mapping[str, Any]) -> Counts:
    """From the numbers of the answer; a list of changes may be only the first of them."""
    changes = body.get("changes") or []
    listed = {"created": 0, "replaced": 0, "deleted": 0}
    for change in changes:
        listed[_verb(change)] += 1
    return Counts(**{name: int(body.get(name, number)) for name, number in listed.items()})


def tell(body: Mapping[str, Any], *, as_json: bool) -> Counts:
    """Show a plan, and say how much it holds."""
    if as_json:
        typer.echo(json.dumps(body, indent=2))
    else:
        for line in lines(body):
            typer.echo(line)
    return counts(body)


def lines(body: Mapping[str, Any]) -> Iterator[str]:
    changes: Sequence[Mapping[str, Any]] = body.get("changes") or []
    number = counts(body)
    for change in changes[:SHOWN_CHANGES_MAX]:
        yield from change_lines(change)
    left = number.created + number.replaced + number.deleted - min(len(changes), SHOWN_CHANGES_MAX)
    if left > 0:
        yield f"… and {left:,} more"
    contests: Sequence[Mapping[str, Any]] = body.get("contests") or []
    if contests:
        yield "which rule wins, for example:"
        for contest in contests[:SHOWN_CONTESTS_MAX]:
            yield "  " + contest_line(contest)
        if len(contests) > SHOWN_CONTESTS_MAX:
            yield f"  … and {len(contests) - SHOWN_CONTESTS_MAX} more"
    yield number.told()


def change_lines(change: Mapping[str, Any]) -> Iterator[str]:
    """`+ rule login`, `- rule login`, or `~ rule login` and each field that differs."""
    what = printable(f"{change['kind']} {change['id']}").replace("\n", "\\n")
    verb = _verb(change)
    if verb == "created":
        yield f"+ {what}"
        for name, value in _body(change["after"]).items():
            if name not in ("name", "id"):
                yield f"    {name}: {_shown(value)}"
    elif verb == "deleted":
        yield f"- {what}"
    else:
        yield f"~ {what}"
        for path, before, after in fields_that_differ(_body(change["before"]), _body(change["after"])):
            yield f"    {path}: {_shown(before)} → {_shown(after)}"


def fields_that_differ(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The smallest parts that are not the same. Lists are compared whole: their order means something."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            below = f"{path}.{name}" if path else str(name)
            yield from fields_that_differ(before.get(name, _ABSENT), after.get(name, _ABSENT), below)
    elif before is _ABSENT or after is _ABSENT or before != after:
        yield path, before, after


def contest_line(contest: Mapping[str, Any]) -> str:
    facts = contest.get("request") or {}
    request = ", ".join(f"{name}={_shown(value)}" for name, value in facts.items()) or "any request"
    by = contest.get("by") or []
    before, after = contest.get("winner_before"), contest.get("winner_after")
    now = after or "none"
    outcome = f"{now}, as before" if before == after else f"{before or 'none'} → {now}"
    if contest.get("loser"):
        outcome = f"{contest['loser']} loses to {now}"
    counted = "+".join(by) if isinstance(by, list) else str(by)
    return printable(f"{request}{f' (by {counted})' if counted else ''}: {outcome}").replace("\n", "\\n")


def _verb(change: Mapping[str, Any]) -> str:
    if change.get("before") is None:
        return "created"
    return "deleted" if change.get("after") is None else "replaced"


def _body(value: Any) -> dict[str, Any]:
    """A body without what is no part of the entry."""
    told = json.loads(value) if isinstance(value, str) else value
    return {name: item for name, item in told.items() if name not in ("meta", "hash")} if isinstance(told, dict) else {}


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(text).replace("\n", "\\n")
    return text if len(text) <= SHOWN_VALUE_CHARS_MAX else text[: SHOWN_VALUE_CHARS_MAX - 1] + "…"
