"""`headgate versions …`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headgate.cli import plan
from headgate.cli.asking import Asked, reading
from headgate.cli.control_client import path_of
from headgate.cli.control_errors import printable
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, show_list, text

app = typer.Typer(help="The history of the configuration.", no_args_is_help=True, rich_markup_mode=None)


def list_versions(asked: Asked, *, limit: LimitOption = LIMIT_DEFAULT) -> None:
    """Show the latest changes: who, when, why.

    \b
    Example:
      headgate versions list --limit 20
    """
    show_list(asked, "/versions", ("version", "when", "by", "verb", "changes", "why"), _row, limit=limit)


def show(
    asked: Asked,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="As `headgate versions list` shows it")],
    *,
    limit: LimitOption = LIMIT_DEFAULT,
) -> None:
    """Show what one version changed.

    \b
    Example:
      headgate versions show 42
    """
    head = asked.control.get(path_of("versions", str(version))).body
    changes, more = asked.control.pages(path_of("versions", str(version), "changes"), limit=limit)
    if asked.as_json:
        typer.echo(json.dumps({**head, "items": changes}, indent=2))
    else:
        number, when, by, verb, _, why = _row(head)
        typer.echo(printable(f"version {number}, {when} by {by} ({verb})" + (f": {why}" if why else "")))
        for change in changes:
            for line in plan.change_lines(change):
                typer.echo(line)
    if more:
        typer.echo(f"these are the first {len(changes):,}; there are more: --limit N", err=True)


def _row(version: dict[str, Any]) -> tuple[str, ...]:
    return tuple(text(version.get(name)) for name in ("version", "at", "who", "verb", "changes", "why"))


reading(app, "list")(list_versions)
reading(app, "show")(show)
