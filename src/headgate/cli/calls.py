"""`headgate calls`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headgate.cli.asking import Asked, asking
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, show_list, text

_COLUMNS = ("at", "who", "method", "path", "status", "address", "why")


def _calls(
    asked: Asked,
    *,
    who: Annotated[str | None, typer.Option("--who", metavar="NAME", help="The token's name")] = None,
    status: Annotated[int | None, typer.Option("--status", metavar="N", min=100, max=599, help="As in 403")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
) -> None:
    """Show the calls that changed something or were not allowed, the latest first.

    \b
    Example:
      headgate calls --status 403
    """
    show_list(asked, "/calls", ("when", *_COLUMNS[1:]), _row, limit=limit, query={"who": who, "status": status})


def _row(call: dict[str, Any]) -> tuple[str, ...]:
    return tuple(text(call.get(name)) for name in _COLUMNS)


calls = asking(_calls)
