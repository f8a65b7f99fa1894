"""`headgate version`."""

from __future__ import annotations

import platform

import typer

from headgate import __version__


def version() -> None:
    """Show the version.

    \b
    Example:
      headgate version
    """
    typer.echo(f"headgate {__version__} (Python {platform.python_version()}, {platform.machine()})")
