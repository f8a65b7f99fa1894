"""Credentials among the entries: verified here, so that no proxy has to (SEMANTICS 1.7, 7.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate import Limiter
from headgate._core import Server as NodeServer
from tests.grpc.client import Answer, Client, Descriptor, by
from tests.grpc.node_process import NodeProcess
from tests.proxies.tokens import SECRET, bearer, made_known
from tests.servers.server import Server

RULES: list[dict[str, Any]] = [
    {"name": "per-user", "by": "user", "limit": "3/hour"},
    {"name": "gold", "match": {"tier": "gold"}, "by": "user", "limit": "9/hour"},
]
Starter = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """A client of a node that verifies tokens."""
    nodes: list[NodeProcess] = []

    def starter(*flags: str) -> Client:
        nodes.append(NodeProcess(tmp_path, *made_known(tmp_path).flags, *flags, rules=RULES))
        return nodes[-1].client()

    yield starter
    for node in nodes:
        node.close()


def showing(authorization: str, **entries: str) -> Descriptor:
    return Descriptor({"authorization": authorization, **entries})


def token(user: str, secret: bytes = SECRET, **claims: str) -> str:
    return bearer(user, secret=secret, **claims)["Authorization"]


def upstream_headers(client: Client, descriptor: Descriptor) -> dict[str, str]:
    request = client.request(descriptor).SerializeToString()
    data = client.raw("envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request)
    response = client.messages.kind("envoy.service.ratelimit.v3.RateLimitResponse").FromString(data)
    return {item.key.lower(): item.value for item in response.request_headers_to_add}


def assert_refused(answer: Answer) -> None:
    assert (answer.code, answer.codes) == ("OVER_LIMIT", ["OVER_LIMIT"])
    assert json.loads(answer.body)["error"]


def test_a_verified_token_says_who_is_asking_and_of_which_tier(start: Starter) -> None:
    client = start()
    answers = [client.ask(showing(token("42"))) for _ in range(4)]
    assert [answer.code for answer in answers] == ["OK"] * 3 + ["OVER_LIMIT"]
    assert client.ask(showing(token("43"))).remaining == [2]
    [status] = client.ask(showing(token("44", tier="gold"))).statuses
    assert (status.rule, status.remaining) == ("gold", 8)


def test_what_a_token_says_counts_before_what_entries_say(start: Starter) -> None:
    client = start()
    assert client.ask(showing(token("42", tier="free"), user="7", tier="gold")).remaining == [2]
    assert client.ask(showing(token("42"), user="8")).remaining == [1]


def test_the_upstream_is_told_who_was_verified(start: Starter) -> None:
    client = start()
    told = upstream_headers(client, showing(token("42", tier="gold", org="acme")))
    assert told == {"x-headgate-user": "42", "x-headgate-tier": "gold", "x-headgate-org": "acme"}
    assert upstream_headers(client, by(user="42")) == {}


@pytest.mark.parametrize("shown", ["Bearer nonsense", "Bearer a.b.c", token("42", b"another secret" * 4)])
def test_a_token_that_does_not_verify_is_over_the_limit_and_spends_nothing(start: Starter, shown: str) -> None:
    """An error would let it pass."""
    client = start()
    assert_refused(client.ask(showing(shown)))
    assert client.ask(by(user="42", hits=0)).remaining == [3]


def test_a_token_that_does_not_verify_is_nobody_where_that_is_allowed(start: Starter) -> None:
    client = start("--unverified", "anonymous")
    assert client.ask(showing("Bearer nonsense")).statuses[0].rule is None


def test_an_entry_without_a_token_is_anonymous(start: Starter) -> None:
    client = start()
    assert client.ask(showing("")).code == "OK"


@pytest.mark.parametrize("limit", [None, (3, "HOUR")])
def test_no_credential_stands_in_the_store(start: Starter, limit: tuple[int, str] | None) -> None:
    with Server() as store:
        client = start("--unverified", "anonymous", "--store", store.url, "--store-deadline-ms", "5000")
        for shown in (token("42"), "Bearer short"):
            client.ask(Descriptor({"authorization": shown, "user": "42"}, limit))
        keys = " ".join(key.decode() for key in store.command("KEYS", "*"))
        assert "hg1:" in keys
        assert "Bearer" not in keys
        assert token("42").rpartition(".")[2] not in keys


def test_without_tokens_configured_it_is_a_descriptor_like_any_other() -> None:
    limiter = Limiter([{"name": "raw", "by": "authorization", "limit": "3/hour"}])
    server = NodeServer(limiter, listen="127.0.0.1:0", threads=1)
    server.start()
    try:
        with Client(server.addresses()["http"]) as client:
            assert client.ask(showing("Bearer x")).statuses[0].rule == "raw"
    finally:
        server.drain(0.0)
