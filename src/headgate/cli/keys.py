"""`headgate keys …`."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import json
import os
import re
import secrets
import string
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from headgate.cli.errors import reported
from headgate.errors import ConfigError
from headgate.model.keys_file import KeysFile

app = typer.Typer(help="API keys as a file.", no_args_is_help=True, rich_markup_mode=None)

_LETTERS = string.ascii_lowercase + string.digits
_SECRET_LETTERS = string.ascii_letters + string.digits
_ID_CHARS = 12
# 43 of 62 letters: 256 bits.
_SECRET_CHARS = 43
_SECRET_FILE_BYTES = 32
_SECRET_BYTES_MIN = 32

FileOption = Annotated[str, typer.Option("--file", metavar="FILE", help="The keys: YAML, JSON or JSON Lines")]


@app.command("create")
def create(
    file: FileOption = "keys.yaml",
    secret_file: Annotated[
        str, typer.Option("--secret-file", metavar="FILE", help="What hashes are made with; made if it is not there")
    ] = "keys.secret",
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose key it is")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME", help="The tier it gives")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call it")] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="2027-01-31, 2027-01-31T12:00:00Z, or 90d")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """Make an API key. Its value is printed once, here; the file gets its hash and whose it is.

    \b
    Example:
      headgate keys create --file keys.yaml --secret-file keys.secret --user 42 --tier pro
    """
    with reported():
        key_id = _letter() + "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS - 1))
        value = f"hgk_{key_id}_" + "".join(secrets.choice(_SECRET_LETTERS) for _ in range(_SECRET_CHARS))
        given = {"name": name, "user": user, "tier": tier, "org": org}
        entry: dict[str, Any] = {"id": key_id} | {field: text for field, text in given.items() if text is not None}
        entry["created"] = _written(datetime.now(UTC))
        if expires is not None:
            entry["expires"] = _written(_when(expires))
        entry["hash"] = hmac.new(_secret(secret_file), value.encode(), hashlib.sha256).hexdigest()
        KeysFile(file).add(entry)
    if as_json:
        typer.echo(json.dumps({"id": key_id, "key": value, "file": file}))
        return
    typer.echo(value)
    typer.echo(f"key {key_id} is in {file}; its value is shown here once and kept nowhere", err=True)


@app.command("list")
def list_keys(
    file: FileOption = "keys.yaml",
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """Show the keys of a file: whose they are, and which have ended.

    \b
    Example:
      headgate keys list --file keys.yaml
    """
    with reported():
        entries = KeysFile(file).entries()
    shown = [{field: text for field, text in entry.items() if field != "hash"} for entry in entries]
    if as_json:
        typer.echo(json.dumps([entry | {"state": _state(entry)} for entry in shown], indent=2))
        return
    from headgate.cli.output import console, table

    headings = ("id", "name", "user", "org", "tier", "state")
    rows = [(*(str(entry.get(field) or "") for field in headings[:-1]), _state(entry)) for entry in shown]
    console().print(table(headings, rows))


@app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `headgate keys list` shows it")],
    file: FileOption = "keys.yaml",
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who revokes it; you unless given")] = None,
) -> None:
    """End a key, from now on. A running node takes the change over by itself.

    \b
    Example:
      headgate keys revoke k3v9x2m4q7wz --file keys.yaml
    """
    with reported():
        keys = KeysFile(file)
        known = next((entry for entry in keys.entries() if str(entry.get("id")) == key_id), None)
        if known is not None and known.get("revoked"):
            raise ConfigError(f"{file}: {key_id} was revoked already, {known['revoked']}")
        keys.mark(key_id, {"revoked": _written(datetime.now(UTC)), "revoked_by": by or _me()})
    typer.echo(f"key {key_id} is revoked in {file}")


def _letter() -> str:
    """Ids begin with a letter, so that nothing takes one for a number."""
    return secrets.choice(string.ascii_lowercase)


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _secret(path: str) -> bytes:
    """The secret, made at the first key. It is readable by its owner only, from the first moment."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        from headgate.identity import read_secret

        secret = read_secret(path)
        if len(secret) < _SECRET_BYTES_MIN:
            raise ConfigError(f"{path}: is too weak: {len(secret)} bytes, expected {_SECRET_BYTES_MIN}") from None
        return secret
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        text = secrets.token_hex(_SECRET_FILE_BYTES)
        file.write(text + "\n")
    typer.echo(f"made {path}: nodes need it beside the keys, and nobody else does", err=True)
    return text.encode()


def _when(text: str) -> datetime:
    days = re.fullmatch(r"([1-9][0-9]{0,4})d", text)
    if days:
        return datetime.now(UTC) + timedelta(days=int(days[1]))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"--expires {text}: expected 2027-01-31, 2027-01-31T12:00:00Z, or 90d") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _written(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _state(entry: dict[str, Any]) -> str:
    now = _written(datetime.now(UTC))
    if entry.get("revoked") and _iso(entry["revoked"]) <= now:
        return f"revoked {entry['revoked']}" + (f" by {entry['revoked_by']}" if entry.get("revoked_by") else "")
    if entry.get("expires"):
        return f"{'expired' if _iso(entry['expires']) <= now else 'until'} {entry['expires']}"
    return "in use"


def _iso(text: object) -> str:
    """A time of a file, in the one form that texts can be compared in."""
    return _written(_when(str(text)))
