"""`headgate overrides …`."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from headgate.cli import times
from headgate.cli.asking import Asked, changing, reading
from headgate.cli.control_client import Answer, path_of
from headgate.cli.control_errors import ControlRefused
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, limit_text, show_entry, show_list, text
from headgate.errors import ConfigError

app = typer.Typer(
    help="What single users, orgs and API keys get instead of everybody's share.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Whose(enum.StrEnum):
    USER = "user"
    ORG = "org"
    API_KEY = "api_key"


WhoseArgument = Annotated[Whose, typer.Argument(metavar="user|org|api_key", help="Of what it is")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Of whom; an API key's id, never its value")]


def list_overrides(
    asked: Asked,
    *,
    user: Annotated[str | None, typer.Option("--user", metavar="ID")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME", help="That give this tier")] = None,
    blocked: Annotated[bool | None, typer.Option("--blocked/--not-blocked", help="Only those")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
) -> None:
    """Show who has limits, a tier or a block of their own.

    \b
    Example:
      headgate overrides list --blocked
    """
    query = {"user": user, "org": org, "tier": tier, "blocked": blocked}
    show_list(asked, "/overrides", ("whose", "tier", "limit", "block", "description"), _row, limit=limit, query=query)


def show(asked: Asked, whose: WhoseArgument, ident: IdArgument) -> None:
    """Show one override as it would be written into a file.

    \b
    Example:
      headgate overrides show user 42
    """
    show_entry(asked, asked.control.get(path_of("overrides", whose, ident)).body)


def put(
    asked: Asked,
    whose: WhoseArgument,
    ident: IdArgument,
    *,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME", help="The tier it has; empty for none")] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="LIMIT", help='As in 100/minute; may be repeated; "" for none'),
    ] = None,
    counter: Annotated[
        str | None, typer.Option("--counter", metavar="NAME", help="The counter of those limits: name a rule's")
    ] = None,
    block: Annotated[bool | None, typer.Option("--block/--no-block", help="Refuse everything, or no longer")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="What the blocked one is told")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="WHEN", help="The block ends: 2027-01-31, 90d")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="The block ends in 90s, 15m, 1h, 7d")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="For people")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Forget what it had; else the rest stays")] = False,
) -> None:
    """Give one user, org or API key a tier, limits, or a block of its own. What is not named stays as it is.

    \b
    Example:
      headgate overrides set user 42 --tier pro --limit 100/minute
      headgate overrides set org acme --block --reason "Invoice unpaid" --for 7d
    """
    end = times.until(until, for_)
    if (reason is not None or end is not None) and not block:
        raise ConfigError("--reason, --until and --for belong to a block: give --block with them")
    patch: dict[str, Any] = {}
    for name, value in (("tier", tier), ("counter", counter), ("description", description)):
        if value is not None:
            patch[name] = value or None
    if limit is not None:
        wanted = [item for item in limit if item]
        patch["limit"] = None if not wanted else wanted[0] if len(wanted) == 1 else wanted
    if block is not None:
        patch["block"] = _block(reason, end) if block else None
    if not patch:
        raise ConfigError("nothing to set: give --tier, --limit, --block or another flag")
    answer = _sent(asked, path_of("overrides", whose, ident), {whose.value: ident}, patch, replace)
    asked.done(answer, f"{whose} {ident} has it", answer.body)


def delete(asked: Asked, whose: WhoseArgument, ident: IdArgument) -> None:
    """Give one user, org or API key everybody's share again.

    \b
    Example:
      headgate overrides delete user 42
    """
    answer = asked.change("DELETE", path_of("overrides", whose, ident))
    asked.done(answer, f"{whose} {ident} has no override any more", {whose.value: ident, "deleted": True})


def _sent(asked: Asked, path: str, subject: dict[str, str], patch: dict[str, Any], replace: bool) -> Answer:
    whole = subject | {name: value for name, value in patch.items() if value is not None}
    if replace:
        return asked.change("PUT", path, whole)
    try:
        return asked.change("PATCH", path, patch)
    except ControlRefused as error:
        if error.status != 404:
            raise
    return asked.change("PUT", path, whole, headers={"If-None-Match": "*"})


def _block(reason: str | None, end: str | None) -> bool | dict[str, str | None]:
    """A merge patch: what the old block said of its end or reason is no longer meant."""
    if reason is None and end is None:
        return True
    return {"reason": reason, "until": end}


def _row(override: dict[str, Any]) -> tuple[str, ...]:
    whose = next((f"{kind} {override[kind]}" for kind in Whose if kind in override), "")
    block = override.get("block")
    if isinstance(block, dict):
        told = " ".join(part for part in (text(block.get("reason")), _until(block.get("until"))) if part)
        block_text = told or "yes"
    else:
        block_text = "yes" if block else ""
    return (
        whose,
        text(override.get("tier")),
        limit_text(override.get("limit")),
        block_text,
        text(override.get("description")),
    )


def _until(moment: object) -> str:
    return f"until {moment}" if moment else ""


reading(app, "list")(list_overrides)
reading(app, "show")(show)
changing(app, "set")(put)
changing(app, "delete")(delete)
