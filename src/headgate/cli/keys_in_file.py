"""API keys kept in a file that nodes read: what `headgate keys --file FILE` does."""

from __future__ import annotations

import getpass
import os
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import typer

from headgate.cli import times
from headgate.errors import ConfigError
from headgate.model.keys_file import KeysFile
from headgate.model.new_key import SECRET_BYTES_MIN, hashed, new_id, new_value

DEFAULT_FILE = "keys.yaml"
DEFAULT_SECRET_FILE = "keys.secret"
# Whose a key is, and what a new one in its place takes over.
OWNER_FIELDS = ("name", "user", "tier", "org")

_SECRET_FILE_BYTES = 32


def create(file: str, secret_file: str, given: dict[str, str | None], expires: str | None) -> tuple[str, str]:
    """The new key's id, and its value, which is kept nowhere."""
    end = None if expires is None else times.written(times.when(expires, "--expires"))
    key_id = new_id()
    value = new_value(key_id)
    entry: dict[str, Any] = {"id": key_id} | {field: text for field, text in given.items() if text is not None}
    entry["created"] = times.written(datetime.now(UTC))
    if end is not None:
        entry["expires"] = end
    entry["hash"] = hashed(_secret(secret_file), value)
    KeysFile(file).add(entry)
    return key_id, value


def listed(file: str) -> list[dict[str, Any]]:
    """Every key without its hash."""
    return [
        {field: text for field, text in entry.items() if field != "hash"} | {"state": times.state(entry)}
        for entry in KeysFile(file).entries()
    ]


def revoke(file: str, key_id: str, by: str | None) -> None:
    _usable(file, key_id)
    KeysFile(file).mark(key_id, {"revoked": times.written(datetime.now(UTC)), "revoked_by": by or _me()})


def rotate(file: str, secret_file: str, key_id: str, grace_s: int) -> tuple[str, str]:
    """A new key for the same owner; the old one ends after the grace. The new one is written first: cut short between
    the two, nobody is locked out."""
    known = _usable(file, key_id)
    given = {field: known[field] for field in OWNER_FIELDS if known.get(field) is not None}
    made = create(file, secret_file, given, None if known.get("expires") is None else str(known["expires"]))
    end = datetime.now(UTC) + timedelta(seconds=grace_s)
    KeysFile(file).mark(key_id, {"revoked": times.written(end), "revoked_by": _me()})
    return made


def _usable(file: str, key_id: str) -> dict[str, Any]:
    known = next((entry for entry in KeysFile(file).entries() if str(entry.get("id")) == key_id), None)
    if known is None:
        raise ConfigError(f"{file}: there is no key with the id {key_id}")
    if known.get("revoked"):
        raise ConfigError(f"{file}: {key_id} was revoked already, {known['revoked']}")
    return known


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
        if len(secret) < SECRET_BYTES_MIN:
            raise ConfigError(f"{path}: is too weak: {len(secret)} bytes, expected {SECRET_BYTES_MIN}") from None
        return secret
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        text = secrets.token_hex(_SECRET_FILE_BYTES)
        file.write(text + "\n")
    typer.echo(f"made {path}: nodes need it beside the keys, and nobody else does", err=True)
    return text.encode()
