"""`headgate backup` and `headgate restore`."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.asking import Asked, JsonOption, asking
from headgate.cli.errors import EXIT_REFUSED, needs_control, reported
from headgate.cli.progress import Meter, metered, working
from headgate.cli.replacing import replacing
from headgate.errors import ConfigError
from headgate.settings import read_settings

if TYPE_CHECKING:
    from typing_extensions import Buffer

BACKUP_TIMEOUT_S = 600.0
# Hashes of keys and tokens are in it: nobody else's business.
_OWNER_ONLY = 0o600


def _backup(
    asked: Asked, file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it; - prints it")]
) -> None:
    """Write the whole configuration and its history to one file, while everything goes on: rules, tiers, overrides,
    blocks, switches, API keys and tokens (their hashes; no secret is in it).

    \b
    Example:
      headgate backup config.backup
    """
    asked.interrupted = "stopped; no file was written"
    chunks = asked.control.download("/backup", timeout_s=BACKUP_TIMEOUT_S)
    if file == "-":
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
        return
    with working(f"writing {file}", quiet=asked.as_json), replacing(file, mode=_OWNER_ONLY) as written:
        size = sum(written.write(chunk) for chunk in chunks)
    if asked.as_json:
        typer.echo(json.dumps({"file": file, "bytes": size}))
    else:
        typer.echo(f"{file}: {size:,} bytes; readable by you alone")


backup = asking(_backup)


def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `headgate backup` wrote")],
    database: Annotated[
        str | None,
        typer.Option("--database", metavar="URL", help="postgresql://… or sqlite:///PATH [HEADGATE_DATABASE]"),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Into a database that is not empty: its history goes on with this state")
    ] = False,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Settings file")] = None,
    as_json: JsonOption = False,
) -> None:
    """Put a backup into a database, directly: the control plane need not be running. All of it or nothing. Nodes take
    the restored state over by themselves, although its version may be smaller.

    \b
    Example:
      headgate restore config.backup --database sqlite:////var/lib/headgate/control.db
    """
    with reported(), needs_control():
        from headgate.control import backup as backups
        from headgate.storage.sql import Database

        where = read_settings({"database": database}, config=config).database
        if where is None:
            raise ConfigError("which database? Give --database URL [HEADGATE_DATABASE]")
        into = Database(where)
        try:
            with (
                open(file, "rb") as stream,
                metered(f"restoring {file}", os.path.getsize(file), quiet=as_json) as meter,
            ):
                restored = backups.restore(io.BufferedReader(_Measured(stream, meter)), into, replace=replace)
        except KeyboardInterrupt:
            typer.echo("headgate: stopped; nothing was changed", err=True)
            raise typer.Exit(EXIT_REFUSED) from None
        finally:
            into.close()
    header = restored.header
    if as_json:
        told = {"position": str(restored.position), "changed": restored.changed, "backup": str(header.position)}
        typer.echo(json.dumps({**told, "at": header.at, "counts": header.counts}, indent=2))
        return
    word = "restored" if restored.changed else "nothing to change: it holds the same already"
    typer.echo(f"{word}: the backup of {header.at}, version {header.position.version}; now {restored.position}")


class _Measured(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, file: io.BufferedReader, meter: Meter) -> None:
        self._file, self._meter = file, meter

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        size = self._file.readinto(buffer)
        self._meter.advance(size)
        return size
