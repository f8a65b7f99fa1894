"""How a running node knows its callers: files that change, files that break, and what its log does not say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from typer.testing import CliRunner

from headgate.cli import app
from tests.grpc.node_process import NodeProcess
from tests.integration.http_node import PATIENCE_S, eventually
from tests.integration.jwks_server import JwksServer, text
from tests.integration.tokens import SECRET, jwk, jwks, pem, private_key

RULES: list[dict[str, Any]] = [{"name": "each", "by": "user", "limit": "1000000/hour"}]
Starter = Callable[..., NodeProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    nodes: list[NodeProcess] = []

    def starter(*flags: str) -> NodeProcess:
        nodes.append(NodeProcess(tmp_path, *flags, rules=RULES))
        return nodes[-1]

    yield starter
    for node in nodes:
        node.close()


def token(key: Any = SECRET, algorithm: str = "HS256", **headers: str) -> str:
    """Good for an hour of the real clock."""
    return jwt.encode({"sub": "7", "exp": int(time.time()) + 3600}, key, algorithm=algorithm, headers=headers)


def status(node: NodeProcess, authorization: str | None = None, api_key: str | None = None) -> int:
    shown = {"authorization": authorization, "api_key": api_key}
    url = f"http://{node.address('http')}/v1/check"
    answer = httpx.post(url, json={"credentials": shown}, timeout=PATIENCE_S, trust_env=False)
    return answer.status_code


def ready(node: NodeProcess) -> dict[str, Any]:
    told: dict[str, Any] = node.admin("/readyz").json()
    return told


def write(path: Path, contents: str | bytes) -> str:
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return str(path)


def keys(*words: str) -> str:
    result = CliRunner().invoke(app, ["keys", *words])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[0] if result.stdout else ""


def test_a_secret_that_changes_is_taken_over_and_a_weak_one_is_not(start: Starter, tmp_path: Path) -> None:
    secret = tmp_path / "jwt.secret"
    node = start("--jwt-secret-file", write(secret, SECRET + b"\n"))
    old, new = f"Bearer {token()}", f"Bearer {token(SECRET[::-1])}"
    assert (status(node, old), status(node, new)) == (200, 401)
    write(secret, b"weak")
    eventually(lambda: ready(node)["identity_error"])
    assert "too weak: 4 bytes" in ready(node)["identity_error"]
    assert ready(node)["ready"]
    assert (status(node, old), status(node, new)) == (200, 401)
    write(secret, SECRET[::-1])
    eventually(lambda: status(node, new) == 200)
    assert status(node, old) == 401
    assert ready(node)["identity_error"] is None


def test_public_keys_and_a_key_set_in_files(start: Starter, tmp_path: Path) -> None:
    rsa, p256, p384 = private_key("rsa"), private_key("p256"), private_key("p384")
    files = [write(tmp_path / name, pem(key)) for name, key in (("a.pem", rsa), ("b.pem", p256))]
    key_set = write(tmp_path / "keys.json", jwks(jwk("p384", kid="k")))
    node = start("--jwt-public-key", ",".join(files), "--jwt-jwks", key_set)
    assert status(node, f"Bearer {token(rsa, 'RS256')}") == 200
    assert status(node, f"Bearer {token(p256, 'ES256')}") == 200
    assert status(node, f"Bearer {token(p384, 'ES384', kid='k')}") == 200
    write(Path(key_set), jwks(jwk("ed25519", kid="k")))
    eventually(lambda: status(node, f"Bearer {token(private_key('ed25519'), 'EdDSA', kid='k')}") == 200)
    assert status(node, f"Bearer {token(p384, 'ES384', kid='k')}") == 401


def test_a_key_set_behind_a_url(start: Starter) -> None:
    with JwksServer(text(jwks(jwk("p256", kid="k")))) as server:
        node = start("--jwt-jwks", server.url)
        assert status(node, f"Bearer {token(private_key('p256'), 'ES256', kid='k')}") == 200
        assert (node.stop(), server.asked) == (0, 1)


def test_a_node_starts_without_its_key_set_and_says_so(start: Starter) -> None:
    with JwksServer(text("away", 503)) as server:
        node = start("--jwt-jwks", server.url)
        assert status(node, f"Bearer {token(private_key('p256'), 'ES256', kid='k')}") == 401
        assert ready(node)["identity_error"] == f"{server.url}: answered 503"
        assert ready(node)["ready"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--jwt-secret-file", "weak"], "jwt_secret: is too weak: 4 bytes, and HS256 needs at least 32"),
        (["--jwt-secret-file", "missing"], "missing: cannot be read"),
        (["--jwt-public-key", "weak"], "jwt_public_key: holds no key"),
        (["--jwt-jwks", "weak"], "jwt_jwks: is not a key set"),
        (["--api-keys", "weak"], "api_keys and api_key_secret_file go together"),
        (["--api-keys", "weak", "--api-key-secret-file", "weak"], "api_key_secret: is too weak: 4 bytes"),
        (["--trusted-proxies", "10.0.0.1/8"], "--trusted-proxies: expected addresses or ranges"),
        (["--api-key-header", "a b"], "--api-key-header: expected the name of a header"),
        (["--unverified", "maybe"], "--unverified: expected one of reject, anonymous"),
    ],
)
def test_what_cannot_be_used_stops_the_start(start: Starter, tmp_path: Path, flags: list[str], words: str) -> None:
    write(tmp_path / "weak", "weak")
    node = start(*flags)
    assert node.process.wait(PATIENCE_S) == 2
    assert words in node.log()


def test_api_keys_are_made_listed_revoked_and_taken_over(start: Starter, tmp_path: Path) -> None:
    file, secret = str(tmp_path / "keys.yaml"), str(tmp_path / "keys.secret")
    made = ["create", "--file", file, "--secret-file", secret]
    first = keys(*made, "--user", "42", "--tier", "pro")
    node = start("--api-keys", file, "--api-key-secret-file", secret)
    assert (status(node, api_key=first), status(node, api_key=first[:-1])) == (200, 401)
    second = keys(*made, "--user", "43", "--expires", "90d")
    eventually(lambda: status(node, api_key=second) == 200)
    keys("revoke", first.split("_")[1], "--file", file)
    eventually(lambda: status(node, api_key=first) == 401)
    assert status(node, api_key=second) == 200
    Path(file).write_text("keys: [{id: x}]")
    eventually(lambda: ready(node)["identity_error"])
    assert "keys[0]: missing field `hash`" in ready(node)["identity_error"]
    assert status(node, api_key=second) == 200


def test_no_secret_key_or_token_is_in_logs_or_files(start: Starter, tmp_path: Path) -> None:
    file, secret = tmp_path / "keys.yaml", tmp_path / "keys.secret"
    value = keys("create", "--file", str(file), "--secret-file", str(secret), "--user", "42")
    jwt_secret = write(tmp_path / "jwt.secret", SECRET)
    flags = ["--api-keys", str(file), "--api-key-secret-file", str(secret), "--jwt-secret-file", jwt_secret]
    node = start(*flags, "--log-level", "debug")
    good, bad = token(), token(b"x" * 32)
    assert [status(node, f"Bearer {good}"), status(node, f"Bearer {bad}"), status(node, api_key=value)] == [
        200,
        401,
        200,
    ]
    told = json.dumps(ready(node)) + node.admin("/metrics").text
    write(Path(jwt_secret), "weaksecret")
    eventually(lambda: ready(node)["identity_error"])
    told += json.dumps(ready(node))
    assert node.stop() == 0
    hidden = [value, value.split("_")[2], secret.read_text().strip(), SECRET.decode(), "weaksecret"]
    hidden += [part for shown in (good, bad) for part in shown.split(".")[1:]]
    for place in (node.log(), told, file.read_text()):
        assert not [part for part in hidden if part in place]
    assert secret.stat().st_mode & 0o777 == 0o600
