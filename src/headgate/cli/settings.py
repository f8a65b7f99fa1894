"""`headgate settings`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from headgate.cli.errors import reported
from headgate.cli.flags import with_setting_flags
from headgate.settings import read_settings


@with_setting_flags
def settings(
    *,
    config: str | None = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
    **flags: str | None,
) -> None:
    """Show every setting, and where its value came from.

    \b
    Example:
      HEADGATE_THREADS=4 headgate settings
    """
    with reported():
        chosen = read_settings(flags, config=config)
    for warning in chosen.warnings:
        typer.echo(f"warning: {warning}", err=True)
    shown = chosen.shown()
    if as_json:
        rows = [{"name": s.name, "value": s.value, "source": s.source, "about": s.about} for s in shown]
        typer.echo(json.dumps(rows, indent=2))
        return
    from headgate.cli.output import console, table

    text = [(s.name, "" if s.value is None else str(s.value), s.source, s.about) for s in shown]
    console().print(table(("setting", "value", "from", "what it is"), text))
