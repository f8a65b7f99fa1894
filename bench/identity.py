"""Forward auth for a client with a verified token, against one without any: what knowing who asks costs the node."""

import base64
import hashlib
import hmac
import json
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Effort, Figure
from bench.node import Node, node
from bench.player import Player, play_in_turns
from bench.processes import compile_c
from bench.rule_sets import PATH, five_limit_rules

NAME = "identity"
TARGET_CPU_TIMES = 1.2
CONNECTIONS = 64
USERS = 1_000
TOKEN_LIFE_S = 3_600
# As nginx asks. Both kinds of request meet the same four limits: without a user, `by: user` counts by address.
QUESTION = f"x-original-uri: {PATH}\r\nx-original-method: GET"
ONE_CLIENT = "x-forwarded-for: 198.51.100.7"


def _part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _token(secret: bytes, user: str) -> str:
    claims = {"sub": user, "tier": "free", "iss": "bench", "exp": int(time.time()) + TOKEN_LIFE_S}
    signed = ".".join(_part(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{signed}.{_part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


@dataclass(frozen=True)
class Clients:
    """What tells 1,000 clients apart, a header a line: their tokens, or their addresses."""

    secret: Path
    tokens: Path
    addresses: Path


@contextmanager
def _clients() -> Iterator[Clients]:
    with tempfile.TemporaryDirectory(prefix="hg-identity-") as folder:
        clients = Clients(*(Path(folder) / name for name in ("secret", "tokens", "addresses")))
        secret = secrets.token_hex(32).encode()
        clients.secret.write_bytes(secret)
        clients.secret.chmod(0o600)
        tokens = (_token(secret, f"user-{number}") for number in range(USERS))
        clients.tokens.write_text("".join(f"authorization: Bearer {token}\n" for token in tokens))
        addresses = (f"10.1.{number // 256}.{number % 256}" for number in range(USERS))
        clients.addresses.write_text("".join(f"x-forwarded-for: {address}\n" for address in addresses))
        yield clients


def _player(target: Node, varied: Path, *headers: str, clients: int = USERS) -> Player:
    command = [str(compile_c("load.c")), "--port", str(target.http_port), "--connections", str(CONNECTIONS)]
    command += ["--path", "/v1/authorize", "--header", "\r\n".join((QUESTION, *headers))]
    return Player([*command, "--varied", str(varied), "--vary", str(clients)], target.pid)


def _figure(players: dict[str, Player], name: str, token: str, anonymous: str, target: float | None = None) -> Figure:
    raw = {**players[token].raw("token"), **players[anonymous].raw("anonymous")}
    return Figure(NAME, name, players[token].cpu_us / players[anonymous].cpu_us, "x", target, raw=raw)


def run(effort: Effort) -> list[Figure]:
    requests = effort.pick(150_000, 10_000)
    with _clients() as clients:
        trusting = ("--jwt-secret-file", str(clients.secret), "--jwt-issuer", "bench")
        rules = five_limit_rules()
        with (
            node(rules, *trusting, threads=1, pinned=True) as remembering,
            node(rules, *trusting, "--jwt-cache", "1", threads=1, pinned=True) as forgetful,
        ):
            players = {
                "anonymous": _player(remembering, clients.addresses),
                "seen": _player(remembering, clients.tokens, ONE_CLIENT),
                "new": _player(forgetful, clients.tokens, ONE_CLIENT),
                "one anonymous": _player(remembering, clients.addresses, clients=1),
                "one seen": _player(remembering, clients.tokens, ONE_CLIENT, clients=1),
            }
            play_in_turns(players, requests, effort.rounds)
            remembering.require_decided()
    what = "/v1/authorize with a token seen before: server CPU a request vs anonymous"
    return [
        _figure(players, f"{what}, {USERS:,} clients each", "seen", "anonymous", TARGET_CPU_TIMES),
        _figure(players, "the same, one client each", "one seen", "one anonymous"),
        _figure(players, f"the same, {USERS:,} tokens vs one anonymous client", "seen", "one anonymous"),
        _figure(players, f"the same, {USERS:,} clients each, every token (HS256) verified anew", "new", "anonymous"),
    ]
