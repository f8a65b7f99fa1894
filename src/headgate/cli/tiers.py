"""`headgate tiers …`."""

from __future__ import annotations

from typing import Annotated

import typer

from headgate.cli.asking import Asked, changing, reading
from headgate.cli.control_client import path_of
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, show_list, text

app = typer.Typer(help="Tiers: named classes of customers.", no_args_is_help=True, rich_markup_mode=None)

TierArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tier's name")]


def list_tiers(asked: Asked, *, limit: LimitOption = LIMIT_DEFAULT) -> None:
    """Show the tiers. While there is any, rules and overrides may name no others.

    \b
    Example:
      headgate tiers list
    """
    row = ("name", "description")
    show_list(asked, "/tiers", row, lambda tier: [text(tier.get(name)) for name in row], limit=limit)


def put(
    asked: Asked,
    name: TierArgument,
    *,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="For people")] = None,
) -> None:
    """Make a tier, or say anew what it is.

    \b
    Example:
      headgate tiers put pro --description "Pays by the month"
    """
    body = {"name": name} | ({} if description is None else {"description": description})
    answer = asked.change("PUT", path_of("tiers", name), body)
    asked.done(answer, f"tier {name} is there", answer.body)


def delete(asked: Asked, name: TierArgument) -> None:
    """Delete a tier that nothing names any more.

    \b
    Example:
      headgate tiers delete trial
    """
    answer = asked.change("DELETE", path_of("tiers", name))
    asked.done(answer, f"tier {name} is deleted", {"name": name, "deleted": True})


reading(app, "list")(list_tiers)
changing(app, "put")(put)
changing(app, "delete")(delete)
