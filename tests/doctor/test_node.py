"""What a running node tells of itself, and how callers would be known."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate import Limiter
from headgate._core import Server
from headgate.doctor.gather import identity
from headgate.doctor.gather.identity import look_at_identity
from headgate.doctor.gather.node import NodeFacts, address_in, look_at_node, node_address, read_metrics
from headgate.doctor.judge.identity import judge_identity
from headgate.doctor.judge.node import judge_node
from headgate.doctor.judge.sources import judge_fleet
from headgate.errors import ConfigError
from headgate.settings import Settings
from tests.doctor.seen import bad, only
from tests.integration.jwks_server import JwksServer, text
from tests.servers.ports import HOST, free_port

PATIENCE_S = 30.0
READY: dict[str, Any] = {
    "ready": True,
    "rules": 1,
    "rules_version": 1,
    "rules_error": None,
    "tls_error": None,
    "identity_error": None,
    "feed": None,
    "store": None,
}
SHARD = {"name": "a", "breaker": "closed", "connected": True, "requests": 1_000, "timeouts": 0}
FEED = {"position": "1.5", "source": "redis://a", "stale_s": 1.0, "refused": 0, "error": None}


@pytest.fixture
def limiter() -> Limiter:
    return Limiter({"rules": [{"name": "a", "by": "user", "limit": "5/minute"}]})


@pytest.fixture
def node(limiter: Limiter) -> Iterator[Server]:
    server = Server(limiter, listen=f"{HOST}:0", threads=1)
    server.start()
    try:
        yield server
    finally:
        server.drain(PATIENCE_S)


def judged(facts: NodeFacts, *, is_named: bool = True, rules: int | None = 1) -> dict[str, str]:
    return bad(judge_node(facts, is_named=is_named, stale_s=30.0, rules=rules))


def told(metrics: str = "", **ready: Any) -> NodeFacts:
    return NodeFacts("here", None, {**READY, **ready}, read_metrics(metrics))


def test_a_real_node_is_well_and_has_the_rules_it_should(node: Server) -> None:
    facts = look_at_node(node_address(node.addresses()["http"]))
    assert judged(facts) == {}
    assert judged(facts, rules=2) == {"node.other_rules": "warning"}
    assert facts.total("headgate_rules") == 1.0


def test_a_node_that_refused_its_rules(node: Server, limiter: Limiter) -> None:
    node.set_rules_error("rules.yaml:3:4: \x1b[31mno")
    limiter.set_feed_status(contact_us=1, source="redis://a", error="the broker is away")
    facts = look_at_node(node_address(f"http://{node.addresses()['http']}/"))
    assert judged(facts) == {
        "node.rules_refused": "problem",
        "node.stale": "problem",
        "node.feed_error": "warning",
    }


def test_nobody_there_is_a_problem_only_where_somebody_was_named() -> None:
    facts = look_at_node(node_address(f"{HOST}:{free_port()}"))
    assert judged(facts, is_named=True) == {"node.away": "problem"}
    assert judged(facts, is_named=False) == {"node.not_seen": "note"}


def test_somebody_else_answers() -> None:
    with JwksServer(text("hello")) as other:
        facts = look_at_node(node_address(other.url.removesuffix("/jwks.json")))
    assert facts.error == "what answers there is not a Headgate node"


def test_a_node_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.doctor.gather.node.NODE_S", 0.5)
    with socket.create_server((HOST, 0)) as silent:
        facts = look_at_node(node_address(f"{HOST}:{silent.getsockname()[1]}"))
    assert facts.error == "no answer in time"


@pytest.mark.parametrize(
    ("ready", "metrics", "expected"),
    [
        ({}, "", {}),
        ({"ready": False}, "", {"node.ready": "warning"}),
        ({"tls_error": "x"}, "", {"node.tls_refused": "problem"}),
        ({"identity_error": "x"}, "", {"node.identity_refused": "problem"}),
        ({"feed": FEED}, "", {}),
        ({"feed": {**FEED, "stale_s": 31.0}}, "", {"node.stale": "warning"}),
        ({"feed": {**FEED, "stale_s": 3100.0}}, "", {"node.stale": "problem"}),
        ({"feed": {**FEED, "refused": 2}}, "", {"node.entries_refused": "warning"}),
        ({"store": {"shards": [SHARD]}}, "", {}),
        ({"store": {"shards": [{**SHARD, "breaker": "open"}]}}, "", {"node.store_lost": "problem"}),
        ({"store": {"shards": [{**SHARD, "connected": False}]}}, "", {"node.store_lost": "problem"}),
        ({"store": {"shards": [{**SHARD, "timeouts": 9}]}}, "", {}),
        ({"store": {"shards": [{**SHARD, "timeouts": 11}]}}, "", {"node.store_slow": "warning"}),
        ({}, 'headgate_decisions_total{path="fallback_open",allowed="true"} 1', {"node.fallback": "warning"}),
        (
            {},
            'headgate_decisions_total{path="fallback_open",allowed="true"} 1\n'
            'headgate_decisions_total{path="store",allowed="true"} 1000',
            {"node.fallback": "note"},
        ),
        ({}, "headgate_overflow_cells 3", {"node.overflow": "warning"}),
        ({}, "headgate_store_overloads_total 3", {"node.overload": "warning"}),
        ({}, "headgate_connections_refused_total 3", {"node.connections": "warning"}),
        ({}, "headgate_connections_refused_total 0", {}),
        ({}, "headgate_store_debts_forgotten_total 3", {"node.debts_forgotten": "note"}),
        ({}, 'headgate_build_info{version="0.0.0"} 1', {"node.version": "note"}),
        (
            {},
            'headgate_upstream_failures_total{upstream="http://a",reason="connect"} 5\n'
            'headgate_upstream_responses_total{upstream="http://a",class="2xx"} 10',
            {"node.upstream_failures": "warning"},
        ),
        (
            {},
            'headgate_upstream_failures_total{upstream="http://a",reason="connect"} 5\n'
            'headgate_upstream_responses_total{upstream="http://a",class="2xx"} 10000',
            {"node.upstream_failures": "note"},
        ),
    ],
)
def test_complaints(ready: dict[str, Any], metrics: str, expected: dict[str, str]) -> None:
    assert judged(told(metrics, **ready)) == expected


def test_metrics_are_read_as_they_are_written() -> None:
    found = read_metrics('# HELP a x\na{x="1",y="q\\"}"} 2\nb 1e3\nc what\n{}\n')
    assert found == {"a": {(("x", "1"), ("y", 'q\\"}')): 2.0}, "b": {(): 1000.0}}


@pytest.mark.parametrize("wrong", ["", "ftp://x:1", "http://u:p@h:1", "h:port", "http://h/readyz"])
def test_an_address_that_is_none(wrong: str) -> None:
    with pytest.raises(ConfigError, match="--node"):
        node_address(wrong)


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        (Settings(), "http://127.0.0.1:8080"),
        (Settings(admin="0.0.0.0:8082"), "http://0.0.0.0:8082"),
        (Settings(tls_cert="c", tls_key="k"), "https://127.0.0.1:8080"),
        (Settings(tls_cert="c", tls_key="k", admin="h:1", admin_tls="off"), "http://h:1"),
        (Settings(upstream="http://a", grpc="127.0.0.1:8081"), "http://127.0.0.1:8081"),
        (Settings(listen=None, uds="/run/x"), "unix:/run/x"),
        (Settings(listen="127.0.0.1:0"), None),
    ],
)
def test_where_a_node_with_these_settings_tells_how_it_is(settings: Settings, where: str | None) -> None:
    found = address_in(settings, is_gateway=settings.upstream is not None)
    assert (found and found.text) == where


def test_how_callers_would_be_known(tmp_path: Path) -> None:
    assert bad(judge_identity(look_at_identity(Settings()))) == {}
    secret = tmp_path / "secret"
    secret.write_text("k" * 64)
    good = list(judge_identity(look_at_identity(Settings(jwt_secret_file=str(secret)))))
    assert only(good, "identity.known").seen == "token keys: 3"
    secret.write_text("short")
    refused = list(judge_identity(look_at_identity(Settings(jwt_secret_file=str(secret)))))
    assert bad(refused) == {"identity.refused": "problem"}
    assert "short" not in only(refused, "identity.refused").seen.replace("too short", ""), "a secret is never shown"


def test_a_file_without_api_keys(tmp_path: Path) -> None:
    secret, keys = tmp_path / "secret", tmp_path / "keys.yaml"
    secret.write_text("k" * 64)
    keys.write_text("keys: []\n")
    settings = Settings(api_keys=str(keys), api_key_secret_file=str(secret))
    assert bad(judge_identity(look_at_identity(settings))) == {"identity.no_api_keys": "warning"}


def test_a_key_set_that_cannot_be_fetched_or_is_of_no_use() -> None:
    gone = Settings(jwt_jwks=f"http://{HOST}:{free_port()}/jwks")
    assert bad(judge_identity(look_at_identity(gone))) == {"identity.no_keys": "problem"}
    with JwksServer(text("not a key set")) as odd:
        found = list(judge_identity(look_at_identity(Settings(jwt_jwks=odd.url))))
    assert bad(found) == {"identity.no_keys": "problem"}


def test_a_disk_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(identity, "IDENTITY_S", 0.1)
    monkeypatch.setattr(identity, "_look", lambda _: time.sleep(1))
    assert bad(judge_identity(look_at_identity(Settings(jwt_secret_file="x")))) == {"identity.late": "problem"}


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        (None, {"fleet.away": "problem"}),
        ({"nodes": [], "regions": []}, {"fleet.empty": "note"}),
        ({"head": "1.3", "nodes": [{"id": "a", "alive": True, "behind": 0}], "regions": []}, {}),
        ({"nodes": [{"id": "a", "alive": True, "behind": 2}]}, {"fleet.behind": "warning"}),
        ({"nodes": [{"id": "a", "alive": False, "behind": 2}]}, {"fleet.empty": "note"}),
        ({"nodes": [{"id": "a", "alive": True, "refused": [1]}]}, {"fleet.refusing": "warning"}),
        (
            {"nodes": [{"id": "a", "alive": True}], "regions": [{"name": "eu", "error": "away"}]},
            {"fleet.region": "problem"},
        ),
    ],
)
def test_what_a_control_plane_says_of_its_fleet(fleet: dict[str, Any] | None, expected: dict[str, str]) -> None:
    assert bad(judge_fleet(fleet, "away")) == expected
