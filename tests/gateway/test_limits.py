"""Limits through the gateway: exact under load, with counters in memory and in a store, and when the store is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.gateway import wire
from tests.gateway.conftest import Start
from tests.gateway.gate import Gate
from tests.gateway.upstream import Upstream
from tests.proxies.tokens import SECRET, bearer
from tests.servers.server import Server

ALLOWED, MORE, CLIENTS = 100, 60, 16
RULES: list[dict[str, Any]] = [
    {"name": "exact", "match": {"endpoint": "/exact"}, "by": "global", "limit": f"{ALLOWED}/hour"},
    {"name": "per-user", "match": {"endpoint": "/user"}, "by": "user", "limit": "2/hour"},
    {"name": "per-tier", "match": {"endpoint": "/user", "tier": "pro"}, "by": "user", "limit": "4/hour"},
    {"name": "open", "match": {"endpoint": "/open"}, "by": "ip", "limit": "1/hour", "on_store_failure": "open"},
    {"name": "shut", "match": {"endpoint": "/shut"}, "by": "ip", "limit": "9/hour", "on_store_failure": "closed"},
    {"name": "local", "match": {"endpoint": "/local"}, "by": "ip", "limit": "4/hour", "on_store_failure": "local"},
    {"name": "own", "match": {"endpoint": "/own"}, "by": "ip", "limit": "1/hour", "response": {"status": 503}},
    {"name": "posts", "match": {"endpoint": "/method", "method": "POST"}, "by": "ip", "limit": "1/hour"},
]


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def behind() -> Iterator[Upstream]:
    with Upstream() as made:
        yield made


@pytest.fixture(scope="module", params=["memory", "store"])
def limited(
    request: pytest.FixtureRequest, behind: Upstream, store: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gate]:
    folder = tmp_path_factory.mktemp("limited")
    (folder / "jwt.secret").write_bytes(SECRET)
    flags = ["--jwt-secret-file", str(folder / "jwt.secret"), "--store-deadline-ms", "10000"]
    if request.param == "store":
        flags += ["--store", store.url]
    behind.begin()
    with Gate(folder, behind, *flags, rules=RULES) as gate:
        yield gate


def test_exactly_so_many_are_let_through_however_many_ask_at_once(limited: Gate, behind: Upstream) -> None:
    behind.begin()

    def ask(turns: int) -> list[int]:
        with limited.wire() as client:
            return [client.get("/exact").status for _ in range(turns)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = Counter(status for part in pool.map(ask, [10] * CLIENTS) for status in part)
    assert answers == {200: ALLOWED, 429: MORE}
    assert len(behind.messages) == ALLOWED


def test_users_are_counted_by_what_was_verified_and_tiers_have_their_own_limits(limited: Gate) -> None:
    def statuses(count: int, shown: dict[str, str]) -> list[int]:
        fields = [f"{name}: {value}" for name, value in shown.items()]
        return [limited.get("/user", *fields).status for _ in range(count)]

    assert statuses(3, bearer("ann")) == [200, 200, 429]
    assert statuses(1, bearer("ben")) == [200]
    assert statuses(5, bearer("cleo", tier="pro")) == [200] * 4 + [429]
    assert statuses(1, {"X-Headgate-User": "ann", "X-User": "ann"}) == [200]


def test_the_rules_own_status_and_method_hold(limited: Gate) -> None:
    assert [limited.get("/own").status for _ in range(2)] == [200, 503]
    posts = [limited.says(wire.request("POST", "/method", body=b"x")).status for _ in range(2)]
    assert (posts, limited.get("/method").status) == ([200, 429], 200)


def test_an_address_has_a_counter_of_its_own(limited: Gate) -> None:
    assert [limited.get("/own", source="127.0.0.21").status for _ in range(2)] == [200, 503]
    assert limited.get("/own", source="127.0.0.22").status == 200


def test_while_the_store_hangs_each_rule_has_its_way(start: Start, own_upstream: Upstream) -> None:
    with Server() as store:
        gate = start(own_upstream, "--store", store.url, "--store-deadline-ms", "200", rules=RULES)
        assert gate.get("/open").status == 200
        store.stop_signal()
        assert [gate.get("/open").status for _ in range(3)] == [200] * 3
        assert [gate.get("/shut").status for _ in range(3)] == [503] * 3
        # A node that is alone has one and a half times the limit.
        assert [gate.get("/local").status for _ in range(8)] == [200] * 6 + [429] * 2
        targets = own_upstream.targets
        assert targets.count("/open") == 4
        assert targets.count("/shut") == 0
        store.cont()


def test_changed_rules_hold_for_the_next_request_of_an_open_connection(
    start: Start, own_upstream: Upstream, tmp_path: Path
) -> None:
    gate = start(own_upstream, "--rules-poll-s", "0.05")
    client = gate.wire()
    assert client.get("/later").status == 200
    rules = tmp_path / "gate0" / "rules.json"
    rules.write_text('{"rules": [{"name": "shut", "match": {"endpoint": "/later"}, "action": "block"}]}')
    statuses = [client.get("/later").status]
    while statuses[-1] == 200:
        assert len(statuses) < 100_000
        statuses.append(client.get("/later").status)
    assert statuses[-1] == 403
