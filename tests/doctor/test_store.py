"""Real stores, well and unwell: what is wrong is seen within seconds, and named."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.doctor.finding import Level
from tests.doctor.seen import bad, only, store_findings
from tests.servers.cluster import Cluster
from tests.servers.sentinel import Sentinels
from tests.servers.server import Server, replication_is_up
from tests.servers.tls import Authority, tls_front
from tests.servers.waiting import wait_for

SOON_S = 30.0
# What a plain server of a test is: nothing is kept, and nobody stands in for it.
PLAIN = {"store.no_replica": "note", "store.no_persistence": "note"}
MINIMAL_ACL = (
    "headgate on >secret ~hg1:* +@read +@write +@scripting +info +time +ping +select +client|setname +memory|usage "
    "+asking +cluster|slots"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def test_a_plain_server_is_well(server: Server) -> None:
    found = store_findings(server.url)
    assert bad(found) == PLAIN
    for code in ("store.version", "store.evicts", "store.latency", "store.clock"):
        assert only(found, code).level is Level.OK


def test_through_a_unix_socket_too(server: Server) -> None:
    assert bad(store_findings(server.unix_url)) == PLAIN


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_evict_is_told_how_not_to(server: Server, policy: str) -> None:
    server.command("CONFIG", "SET", "maxmemory-policy", policy)
    try:
        assert bad(store_findings(server.url))["store.evicts"] == "note"
        server.command("CONFIG", "SET", "maxmemory", "1gb")
        found = only(store_findings(server.url), "store.evicts")
        assert found.level is Level.WARNING
        assert policy in found.seen
        assert "noeviction" in found.do
    finally:
        server.command("CONFIG", "SET", "maxmemory", "0")
        server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_a_server_that_has_evicted_and_one_that_is_full_are_problems() -> None:
    with Server(maxmemory="3mb", maxmemory_policy="allkeys-lru") as small:
        for number in range(400):
            small.command("SET", f"key{number}", "x" * 10_000)
        found = bad(store_findings(small.url), Level.WARNING)
        assert found["store.evicts"] == "problem"
        assert found["store.full"] in ("warning", "problem")


def test_a_server_that_hangs_is_named_and_not_waited_for(server: Server) -> None:
    server.stop_signal()
    try:
        found = only(store_findings(server.url), "store.away")
    finally:
        server.cont()
    assert found.level is Level.PROBLEM
    assert found.seen == f"{server.address}: no answer in time"


def test_nobody_listens() -> None:
    with Server() as gone:
        address = gone.address
    assert only(store_findings(f"redis://{address}"), "store.away").seen == f"{address}: Connection refused"


def test_a_wrong_password_is_told_once_and_not_shown() -> None:
    with Server(password="right") as guarded:
        for url in (guarded.url_for("", "hunter2"), f"redis://{guarded.address}"):
            found = store_findings(url)
            assert bad(found) == {"store.refused": "problem"}
            assert "password" in only(found, "store.refused").seen
            assert "hunter2" not in repr(found)
        assert bad(store_findings(guarded.url)) == PLAIN


def test_a_url_that_is_none_is_told_as_a_node_would() -> None:
    found = only(store_findings("redis://user:hunter2@host:port"), "store.refused")
    assert "not HOST:PORT" in found.seen
    assert "hunter2" not in found.seen


def test_what_an_acl_hides_is_said_and_the_rest_is_looked_at() -> None:
    with Server(users=[MINIMAL_ACL], maxmemory="1gb", maxmemory_policy="allkeys-lru") as guarded:
        found = store_findings(guarded.url_for("headgate", "secret"))
        expected = {"store.config_hidden": "note", "store.evicts": "warning", "store.no_replica": "note"}
        assert bad(found) == expected


def test_a_replica_is_not_the_store(server: Server) -> None:
    with Server(args=("--replicaof", "127.0.0.1", str(server.port))) as replica:
        wait_for("replication", lambda: replication_is_up(replica), SOON_S)
        found = store_findings(replica.url)
        assert only(found, "store.replica").level is Level.PROBLEM
        assert "link to the primary is up" in only(found, "store.replica").seen
        assert "store.no_replica" not in bad(store_findings(server.url))


def test_writing_to_disk_at_every_request_is_seen() -> None:
    with Server(args=("--appendonly", "yes", "--appendfsync", "always")) as slow:
        found = bad(store_findings(slow.url))
        assert found == {"store.fsync": "warning", "store.no_replica": "note"}


def test_too_few_replicas_to_write() -> None:
    with Server(args=("--min-replicas-to-write", "2")) as lonely:
        assert bad(store_findings(lonely.url))["store.too_few_replicas"] == "problem"


def test_tls_is_spoken_and_a_stranger_is_not_trusted(server: Server, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    stranger = Authority(other)
    with tls_front(server.port, authority) as front:
        where = f"rediss://127.0.0.1:{front.port}"
        assert bad(store_findings(f"{where}?ca={authority.certificate}")) == PLAIN
        found = store_findings(f"{where}?ca={stranger.certificate}")
        assert bad(found) == {"store.refused": "problem"}
        assert "certificate" in only(found, "store.refused").seen


def test_what_is_no_redis_at_all() -> None:
    class Web(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        try:
            found = store_findings(f"redis://127.0.0.1:{web.server_port}")
        finally:
            web.shutdown()
    assert bad(found) == {"store.refused": "problem"}


def test_a_cluster_that_lost_a_primary() -> None:
    with Cluster(replicas=0) as cluster:
        assert bad(store_findings(cluster.url), Level.WARNING) == {}
        assert bad(store_findings(cluster.node(0).url))["store.is_cluster"] == "problem"
        cluster.node(0).command("CONFIG", "SET", "cluster-require-full-coverage", "yes")
        assert bad(store_findings(cluster.url), Level.WARNING) == {"store.full_coverage": "warning"}
        lost = cluster.kill_primary(1)
        living = cluster.node(0)
        wait_for("the loss is known", lambda: b"cluster_slots_fail:0" not in living.command("CLUSTER", "INFO"), SOON_S)
        found = store_findings(cluster.url)
        assert bad(found, Level.PROBLEM).keys() >= {"store.away"}
        assert bad(found, Level.PROBLEM).keys() & {"store.slots_lost", "store.cluster_down"}
        assert lost.address in only(found, "store.away").seen


def test_a_server_that_is_no_cluster_is_not_taken_for_one(server: Server) -> None:
    found = bad(store_findings(f"redis+cluster://{server.address}"))
    assert found["store.no_cluster"] == "problem"


def test_sentinels_that_can_and_that_cannot_promote() -> None:
    with Sentinels() as set_up:
        assert bad(store_findings(set_up.url), Level.WARNING) == {}
        wrong = set_up.url.replace("/mymaster", "/yours")
        assert bad(store_findings(wrong))["store.no_primary"] == "problem"
        for sentinel in set_up.sentinels[1:]:
            sentinel.kill9()
        left = set_up.sentinels[0]
        wait_for("the loss is known", lambda: b"s_down" in _sentinels(left), SOON_S)
        found = bad(store_findings(set_up.url), Level.WARNING)
        assert (found["store.sentinel_away"], found["store.no_quorum"]) == ("warning", "problem")


def test_servers_of_a_ring_are_looked_at_one_by_one(server: Server) -> None:
    with Server() as gone:
        address = gone.address
    found = store_findings(f"redis+ring://{server.address},{address}")
    assert only(found, "store.away").seen.startswith(address)
    assert only(found, "store.version").seen.startswith(server.address)


def _sentinels(sentinel: Server) -> bytes:
    return b" ".join(b" ".join(row) for row in sentinel.command("SENTINEL", "SENTINELS", "mymaster"))
