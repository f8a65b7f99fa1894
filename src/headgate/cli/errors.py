"""From errors to exit codes: 2 for anything the user wrote wrongly, 1 when the machine refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from headgate.errors import ConfigError, StoreError

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
    except StoreError as error:
        typer.echo(f"headgate: store: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    except OSError as error:
        typer.echo(f"headgate: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
