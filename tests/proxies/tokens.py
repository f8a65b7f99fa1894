"""Credentials: tokens as an identity provider with a shared secret signs them, and an API key of ours."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from headgate.cli import app

SECRET = b"a secret of forty bytes, for tests alone"
LIFE_S = 3600


def bearer(user: str, *, secret: bytes = SECRET, alg: str = "HS256", **claims: str | int) -> dict[str, str]:
    """The header a client sends."""
    body = {"sub": user, "exp": int(time.time()) + LIFE_S, **claims}
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": alg, "typ": "JWT"}, body))
    signature = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return {"Authorization": f"Bearer {signed}.{_encoded(signature)}"}


@dataclass(frozen=True)
class Known:
    """What a node is told of users and keys; the key it knows, and that key's id."""

    flags: list[str]
    key: str
    key_id: str


def made_known(folder: Path) -> Known:
    secret, keys, keys_secret = folder / "jwt.secret", folder / "keys.yaml", folder / "keys.secret"
    secret.touch(mode=0o600)
    secret.write_bytes(SECRET)
    create = ["keys", "create", "--file", str(keys), "--secret-file", str(keys_secret), "--user", "7", "--tier", "pro"]
    made = CliRunner().invoke(app, [*create, "--json"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    files = {"--jwt-secret-file": secret, "--api-keys": keys, "--api-key-secret-file": keys_secret}
    return Known([part for flag, file in files.items() for part in (flag, str(file))], told["key"], told["id"])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
