"""`headgate serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NoReturn

import typer

from headgate.cli.errors import needs_control, reported
from headgate.cli.flags import with_setting_flags
from headgate.settings import read_settings

ReadyFile = Annotated[
    str | None,
    typer.Option("--ready-file", help="Write the bound addresses here, as JSON, once answering", metavar="PATH"),
]


_DEFAULTS = {"database": "sqlite:///headgate.db"}


@with_setting_flags
def serve(*, config: str | None = None, ready_file: ReadyFile = None, **flags: str | None) -> None:
    """Answer checks over HTTP, with a control plane on SQLite in the same process, until SIGTERM; SIGHUP or a saved
    change reloads the rules. An empty --database leaves the control plane out.

    \b
    Example:
      headgate serve --rules rules.yaml --listen 127.0.0.1:8080
      curl -s 127.0.0.1:8080/v1/check -d '{"user": "42", "path": "/api/v1/login", "method": "POST"}'
      headgate rules list
    """
    with reported():
        settings = read_settings(flags, config=config, defaults=_DEFAULTS)
        if settings.database is None:
            from headgate.node.process import run
        else:
            with needs_control():
                from headgate.embedded.process import run

        code = run(settings, ready_file=ready_file)
    raise typer.Exit(code)


def run_node(
    flags: Mapping[str, str | None],
    config: str | None,
    ready_file: str | None,
    defaults: Mapping[str, object] | None = None,
) -> NoReturn:
    """A node until it is told to stop; `defaults` are a verb's own."""
    with reported():
        settings = read_settings(flags, config=config, defaults=defaults)
        from headgate.node.process import run

        code = run(settings, ready_file=ready_file)
    raise typer.Exit(code)
