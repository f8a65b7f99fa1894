"""`headgate blocks …`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headgate.cli import times
from headgate.cli.asking import Asked, changing, reading
from headgate.cli.control_client import path_of
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, show_list, text
from headgate.errors import ConfigError

app = typer.Typer(
    help="Refusing an address, a user, an org or an API key at once.", no_args_is_help=True, rich_markup_mode=None
)

KINDS = ("ip", "user", "org", "api_key")


def add(
    asked: Asked,
    *,
    ip: Annotated[str | None, typer.Option("--ip", metavar="RANGE", help="203.0.113.7 or 203.0.113.0/24")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    api_key: Annotated[str | None, typer.Option("--api-key", metavar="ID", help="Its id, not its value")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="It ends in 90s, 15m, 1h, 7d")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help="It ends: 2027-01-31, 90d")] = None,
) -> None:
    """Refuse an address or a range, a user, an org or an API key everywhere, at once. Without an end it stays until
    it is lifted.

    \b
    Example:
      headgate blocks add --ip 203.0.113.0/24 --for 1h --why "Scraping the catalogue" --wait
    """
    given = {kind: value for kind, value in zip(KINDS, (ip, user, org, api_key), strict=True) if value is not None}
    if len(given) != 1:
        raise ConfigError("a block is of one thing: give one of --ip, --user, --org and --api-key")
    body: dict[str, Any] = dict(given)
    end = times.until(until, for_)
    if end is not None:
        body["until"] = end
    if asked.why is not None:
        body["why"] = asked.why
    answer = asked.change("POST", "/blocks", body)
    if asked.dry_run:
        asked.done(answer, "")
        return
    (kind, value), *_ = given.items()
    told = f"{kind} {value} is blocked" + (f" until {end}" if end else "")
    asked.done(answer, f"{told}: {answer.body['id']}", answer.body)


def list_blocks(
    asked: Asked,
    *,
    every: Annotated[bool, typer.Option("--all", help="Those that have ended as well")] = False,
    limit: LimitOption = LIMIT_DEFAULT,
) -> None:
    """Show who is blocked, until when, and why.

    \b
    Example:
      headgate blocks list
    """
    query = {"active": None if every else True}
    show_list(asked, "/blocks", ("id", "who", "until", "why", "since", "by"), _row, limit=limit, query=query)


def lift(
    asked: Asked, block_id: Annotated[str, typer.Argument(metavar="ID", help="As `headgate blocks list` shows it")]
) -> None:
    """End a block.

    \b
    Example:
      headgate blocks lift b7k2m9x4q1wz --wait
    """
    answer = asked.change("DELETE", path_of("blocks", block_id))
    asked.done(answer, f"block {block_id} is lifted", {"id": block_id, "lifted": True})


def _row(block: dict[str, Any]) -> tuple[str, ...]:
    who = next((f"{kind} {block[kind]}" for kind in KINDS if kind in block), "")
    meta = block.get("meta") or {}
    return (
        text(block["id"]),
        who,
        text(block.get("until")) or "lifted",
        text(block.get("why")),
        text(meta.get("created")),
        text(meta.get("created_by")),
    )


changing(app, "add")(add)
reading(app, "list")(list_blocks)
changing(app, "lift")(lift)
