"""Asking before something is changed."""

from __future__ import annotations

import sys

import typer

from headgate.errors import ConfigError


def agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on. Without a terminal nobody can be asked, so it must have been said before."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError(
            "nobody can be asked here, since the input is not a terminal: give --yes, or look with --dry-run"
        )
    return typer.confirm(question, default=False, err=True)
