"""From errors to exit codes: 2 for anything the user wrote wrongly, 1 when the machine refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from headgate.cli.control_errors import ControlRefused
from headgate.errors import ConfigError, HeadgateError, StoreError

EXIT_REFUSED = 1
EXIT_USAGE = 2


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Show an error as its message, not as a stack trace."""
    try:
        yield
    except ConfigError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_USAGE) from None
    except ControlRefused as error:
        typer.echo(f"headgate: {error}", err=True)
        raise typer.Exit(EXIT_USAGE if error.is_mistake else EXIT_REFUSED) from None
    except StoreError as error:
        typer.echo(f"headgate: store: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    except (HeadgateError, OSError) as error:
        typer.echo(f"headgate: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None


@contextlib.contextmanager
def needs_control() -> Iterator[None]:
    """Says what to install where a package of the control plane is missing."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("headgate"):
            raise
        typer.echo(f"headgate: this needs what `pip install headgate[control]` brings ({error.name})", err=True)
        raise typer.Exit(EXIT_USAGE) from None
