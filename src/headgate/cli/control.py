"""`headgate control`."""

from __future__ import annotations

import typer

from headgate.cli.errors import needs_control, reported
from headgate.cli.flags import with_setting_flags
from headgate.cli.serve import ReadyFile
from headgate.settings import read_settings


@with_setting_flags
def control(*, config: str | None = None, ready_file: ReadyFile = None, **flags: str | None) -> None:
    """Keep rules, keys, overrides and blocks with their history, and send every change to the nodes, until SIGTERM.

    \b
    Example:
      openssl rand -hex 32 > feed.key
      headgate control --database postgresql://headgate@db/headgate --feed-key-file feed.key --regions eu=redis://10.0.0.1:6379
      headgate node --rules redis://10.0.0.1:6379 --feed-key-file feed.key --store redis://10.0.0.1:6379
    """
    with reported(), needs_control():
        settings = read_settings(flags, config=config)
        from headgate.control.process import run

        code = run(settings, ready_file=ready_file)
    raise typer.Exit(code)
