"""Sentinels and clusters: that they are whole when handed over, and lose and regain servers as asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.exceptions import AskError, MovedError

from tests.servers.binaries import Flavour, flavours
from tests.servers.cluster import SHARDS, Cluster
from tests.servers.ports import HOST
from tests.servers.sentinel import NAME, SENTINELS, Sentinels
from tests.servers.server import Server
from tests.servers.slots import SLOTS, ranges, slot_of
from tests.servers.waiting import wait_for

LOSS_TIMEOUT_S = 30


@pytest.fixture(params=flavours(), ids=str)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    flavour: Flavour = request.param
    flavour.require()
    return flavour


@pytest.fixture(scope="module", params=flavours(), ids=str)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Shared: each test leaves all six nodes alive and settled."""
    with Cluster(request.param.require()) as cluster:
        yield cluster


def sends_on(server: Server, kind: type[AskError], key: str) -> int:
    """The port a MOVED or an ASK names."""
    with pytest.raises(kind) as caught:
        server.command("GET", key)
    assert type(caught.value) is kind
    return caught.value.port


def test_sentinels_promote_the_replica_and_take_the_old_primary_back(flavour: Flavour) -> None:
    with Sentinels(flavour.binary) as sentinels:
        assert sentinels.url.count(",") == SENTINELS - 1
        assert sentinels.url.endswith(f"/{NAME}")
        survivor = sentinels.replica
        sentinels.primary.command("SET", "a", "1")
        assert sentinels.primary.command("WAIT", 1, 5_000) == 1
        killed = sentinels.kill_primary()
        promoted = sentinels.wait_promoted()
        assert promoted is survivor
        assert promoted.command("GET", "a") == b"1"
        killed.restart()
        sentinels.wait_rejoined(killed)
        assert killed.command("GET", "a") == b"1"


def test_a_new_cluster_serves_every_slot_from_three_primaries_with_a_replica_each(cluster: Cluster) -> None:
    for number in range(SHARDS):
        primary, replica = cluster.node(number), cluster.node(SHARDS + number)
        assert cluster.primary(number) is primary
        assert replica.command("ROLE")[2] == primary.port
    assert sum(last - first + 1 for first, last in ranges(SHARDS)) == SLOTS
    for key in ("a", "{user:1}:x", "user{}1", ""):
        assert slot_of(key) == cluster.node(0).command("CLUSTER", "KEYSLOT", key)
        assert cluster.primary_of(key).command("SET", key, "1") == b"OK"


def test_a_library_finds_the_whole_cluster_from_its_url(cluster: Cluster) -> None:
    first = cluster.url.removeprefix("redis+cluster://").split(",")[0]
    host, port = first.split(":")
    with redis.RedisCluster(host=host, port=int(port)) as client:
        assert {node.port for node in client.get_nodes()} == {node.port for node in cluster.nodes}


def test_a_shard_that_loses_its_primary_gets_another_and_the_old_one_back(cluster: Cluster) -> None:
    before = cluster.primary(1)
    killed = cluster.kill_primary(1)
    assert killed is before
    promoted = cluster.wait_promoted(1)
    assert promoted in cluster.shard(1)
    killed.restart()
    cluster.wait_settled()
    assert cluster.primary(1) is promoted
    assert killed.command("ROLE")[0] == b"slave"


def test_a_shard_whose_primary_hangs_gets_another(cluster: Cluster) -> None:
    hung = cluster.primary(2)
    hung.stop_signal()
    promoted = cluster.wait_promoted(2)
    assert promoted is not hung
    hung.cont()
    cluster.wait_settled()
    assert cluster.primary(2) is promoted


def test_a_slot_moves_with_its_keys_while_requests_go_on(cluster: Cluster) -> None:
    keys = [f"{{moving}}{number}" for number in range(25)]
    slot = slot_of(keys[0])
    source = cluster.primary_of_slot(slot)
    to = next(shard for shard in range(SHARDS) if cluster.primary(shard) is not source)
    for key in keys:
        source.command("SET", key, "1")
    steps = cluster.migrate_slot(slot, to, keys_a_step=10)
    assert next(steps) == 25
    assert source.command("GET", keys[0]) == b"1"
    target = cluster.primary(to)
    assert sends_on(source, AskError, "{moving}new") == target.port
    assert list(steps) == [15, 5, 0]
    assert cluster.primary_of(keys[0]) is target
    assert [target.command("GET", key) for key in keys] == [b"1"] * 25
    assert sends_on(source, MovedError, keys[0]) == target.port


def noticed(server: Server, sign: bytes) -> None:
    wait_for(f"{server} says {sign!r}", lambda: sign in server.command("CLUSTER", "INFO"), LOSS_TIMEOUT_S)


def keys_of(cluster: Cluster, *nodes: Server) -> list[str]:
    """One key on each."""
    return [next(key for key in map(str, range(1_000)) if cluster.primary_of(key) is node) for node in nodes]


def test_a_cluster_without_replicas_goes_on_with_the_slots_it_has_left() -> None:
    with Cluster(replicas=0) as cluster:
        kept, lost = keys_of(cluster, cluster.node(0), cluster.node(2))
        cluster.kill_primary(2)
        noticed(cluster.node(0), b"cluster_slots_fail:5462")
        assert cluster.node(0).command("SET", kept, "1") == b"OK"
        with pytest.raises(redis.RedisError):
            cluster.node(0).command("SET", lost, "1")


def test_a_cluster_of_full_coverage_stops_when_a_slot_is_lost() -> None:
    with Cluster(replicas=0, full_coverage=True) as cluster:
        [kept] = keys_of(cluster, cluster.node(0))
        cluster.kill_primary(2)
        noticed(cluster.node(0), b"cluster_state:fail")
        with pytest.raises(redis.exceptions.ClusterDownError):
            cluster.node(0).command("SET", kept, "1")


def test_clients_of_a_proxied_cluster_are_told_of_the_proxies_only(flavour: Flavour) -> None:
    with Cluster(flavour.binary, proxied=True) as cluster:
        proxies = {proxy.port for proxy in cluster.proxies}
        first = int(cluster.url.rpartition(":")[2])
        assert first in proxies
        with redis.RedisCluster(host=HOST, port=first) as client:
            assert {node.port for node in client.get_nodes()} == proxies
            client.set("a", "1")
        owner = cluster.primary_of("a")
        assert owner.command("GET", "a") == b"1"
        assert cluster.proxy_of(owner).requests.bytes > 0
        other = next(node for node in cluster.nodes[:SHARDS] if node is not owner)
        assert sends_on(other, MovedError, "a") == cluster.proxy_of(owner).port
