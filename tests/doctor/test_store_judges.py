"""Stores that are not at hand, judged from what they would say."""

from __future__ import annotations

import pytest

from headgate.doctor.finding import Level
from headgate.doctor.gather import store_url
from headgate.doctor.gather.store import ClusterFacts, SentinelFacts, ServerFacts, StoreFacts
from headgate.doctor.gather.store_url import Login, Place, StoreUrl
from headgate.doctor.judge.server import judge_server
from headgate.doctor.judge.store import judge_store
from tests.doctor.seen import bad, only

HERE = Place("127.0.0.1", 6379)
INFO = {
    "redis_version": "8.2.2",
    "role": "master",
    "cluster_enabled": "0",
    "connected_slaves": "1",
    "maxmemory_policy": "noeviction",
}
CONFIG = {"maxmemory": "0", "maxmemory-policy": "noeviction", "save": "3600 1"}


def judged(info: dict[str, str], config: dict[str, str] | None = None) -> dict[str, str]:
    facts = ServerFacts(HERE, None, {**INFO, **info}, {**CONFIG, **(config or {})}, (0.2,) * 100, 0.0, 0.0001)
    return bad(judge_server(facts, store_url.ONE, 5.0))


def test_nothing_is_wrong_with_a_good_server() -> None:
    assert judged({}) == {}


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("redis", "6.2.20", {"store.version": "problem"}),
        ("redis", "7.0.15", {"store.scripts_unsafe": "note"}),
        ("redis", "7.2.10", {"store.scripts_unsafe": "note"}),
        ("redis", "7.2.11", {}),
        ("redis", "8.0.3", {"store.scripts_unsafe": "note"}),
        ("redis", "8.2.1", {"store.scripts_unsafe": "note"}),
        ("redis", "8.4.0", {}),
        ("redis", "unstable", {"store.version": "note"}),
        ("valkey", "7.2.4", {"store.scripts_unsafe": "note"}),
        ("valkey", "8.1.3", {"store.scripts_unsafe": "note"}),
        ("valkey", "8.1.4", {}),
        ("valkey", "9.0.0", {}),
    ],
)
def test_versions(name: str, version: str, expected: dict[str, str]) -> None:
    # Valkey calls itself Redis 7.2.4 as well, for old clients.
    info = {"redis_version": "7.2.4", "valkey_version": version} if name == "valkey" else {"redis_version": version}
    assert judged(info) == expected


@pytest.mark.parametrize(
    ("info", "config", "expected"),
    [
        ({"evicted_keys": "7"}, {"maxmemory-policy": "allkeys-lfu"}, {"store.evicts": "problem"}),
        ({"evicted_keys": "7"}, {}, {}),
        ({"used_memory": "91"}, {"maxmemory": "100"}, {"store.full": "warning"}),
        ({"used_memory": "100"}, {"maxmemory": "100"}, {"store.full": "problem"}),
        ({"used_memory": "100"}, {"maxmemory": "0"}, {}),
        ({"connected_clients": "95", "maxclients": "100"}, {}, {"store.clients": "warning"}),
        ({"loading": "1"}, {}, {"store.loading": "problem"}),
        ({"rdb_last_bgsave_status": "err"}, {}, {"store.disk": "problem"}),
        ({"rdb_last_bgsave_status": "err"}, {"stop-writes-on-bgsave-error": "no"}, {}),
        ({"aof_enabled": "1", "aof_last_write_status": "err"}, {}, {"store.disk": "problem"}),
        ({"aof_enabled": "1"}, {"appendfsync": "everysec"}, {}),
        ({"connected_slaves": "0"}, {}, {"store.no_replica": "note"}),
        ({}, {"save": ""}, {"store.no_persistence": "note"}),
        ({}, {"min-replicas-to-write": "1"}, {}),
        ({"role": "slave"}, {}, {"store.replica": "problem"}),
    ],
)
def test_states(info: dict[str, str], config: dict[str, str], expected: dict[str, str]) -> None:
    assert judged(info, config) == expected


@pytest.mark.parametrize(
    ("took_ms", "level"),
    [
        ((1.0,) * 100, "ok"),
        ((3.0,) * 100, "note"),
        ((1.0,) * 98 + (9.0, 9.0), "warning"),
        ((6.0,) * 100, "problem"),
    ],
)
def test_latency_is_measured_by_the_deadline(took_ms: tuple[float, ...], level: str) -> None:
    facts = ServerFacts(HERE, None, INFO, CONFIG, took_ms)
    assert only(judge_server(facts, store_url.ONE, 5.0), "store.latency").level.word == level


@pytest.mark.parametrize(
    ("ahead_s", "doubt_s", "level"),
    [(0.01, 0.001, "ok"), (-0.5, 0.001, "note"), (0.5, 0.6, "ok"), (3.0, 0.1, "warning"), (-3.0, 0.1, "warning")],
)
def test_clocks_are_told_apart_only_as_far_as_is_certain(ahead_s: float, doubt_s: float, level: str) -> None:
    facts = ServerFacts(HERE, None, INFO, CONFIG, (), ahead_s, doubt_s)
    assert only(judge_server(facts, store_url.ONE, 5.0), "store.clock").level.word == level


def test_clocks_of_shards_are_compared_with_each_other() -> None:
    url = store_url.parse("redis+ring://a,b,c")
    shards = tuple(
        ServerFacts(place, None, INFO, CONFIG, (), ahead_s, 0.001)
        for place, ahead_s in zip(url.places, (0.4, -0.9, 0.1), strict=True)
    )
    found = only(judge_store(StoreFacts(url, servers=shards), 5.0), "store.clocks_apart")
    assert found.level is Level.WARNING
    assert "a:6379 is 1.3 s ahead of b:6379" in found.seen


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://10.0.0.1", {"store.no_password": "warning"}),
        ("redis://:hunter2@cache.example", {"store.password_in_clear": "warning"}),
        ("rediss://:hunter2@cache.example", {}),
        ("redis://:hunter2@127.0.0.1", {}),
        ("redis://localhost", {}),
        ("unix:///run/redis.sock", {}),
    ],
)
def test_who_else_can_read_along(url: str, expected: dict[str, str]) -> None:
    found = list(judge_store(StoreFacts(store_url.parse(url)), 5.0))
    assert bad(found) == expected
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(store_url.parse(url))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("memory://", StoreUrl("memory")),
        ("redis://me:p%40ss@cache:6380/3", StoreUrl("one", (Place("cache", 6380),), Login("me", "p@ss"))),
        ("redis://[::1]:7000", StoreUrl("one", (Place("::1", 7000),))),
        ("unix:///run/redis.sock?db=2&password=x", StoreUrl("one", (Place(path="/run/redis.sock"),), Login(None, "x"))),
        ("unix://:x@/run/redis.sock", StoreUrl("one", (Place(path="/run/redis.sock"),), Login(None, "x"))),
        (
            "redis+sentinel://:pw@a,b:7/my%2Fmaster/1?sentinel_password=q",
            StoreUrl("sentinel", (Place("a", 26_379), Place("b", 7)), Login(None, "pw"), Login(None, "q"), "my/master"),
        ),
        (
            "rediss+cluster://a,b?ca=/ca",
            StoreUrl("cluster", (Place("a", 6379), Place("b", 6379)), is_tls=True, ca="/ca"),
        ),
    ],
)
def test_urls_are_taken_apart(url: str, expected: StoreUrl) -> None:
    assert store_url.parse(url) == expected


def test_slots_that_nobody_has() -> None:
    url = store_url.parse("redis+cluster://a")
    cluster = ClusterFacts({"cluster_state": "fail", "cluster_slots_fail": "0"}, {HERE: 0}, 10_000)
    found = bad(judge_store(StoreFacts(url, cluster=cluster), 5.0))
    assert found == {
        "store.no_password": "warning",
        "store.cluster_down": "problem",
        "store.slots_missing": "problem",
        "store.no_replica": "note",
    }


def test_sentinels_that_disagree_and_are_few() -> None:
    url = store_url.parse("redis+sentinel://127.0.0.1,127.0.0.1:2/m")
    state = {"flags": "master,s_down", "num-slaves": "0", "num-other-sentinels": "1"}
    told = [SentinelFacts(place, None, Place("h", nth), state) for nth, place in enumerate(url.places)]
    found = bad(judge_store(StoreFacts(url, sentinels=tuple(told)), 5.0))
    assert found == {
        "store.split": "problem",
        "store.primary_down": "problem",
        "store.no_replica_to_promote": "warning",
        "store.few_sentinels": "warning",
    }


def test_servers_beyond_the_bound_are_told() -> None:
    url = store_url.parse("redis+ring://127.0.0.1")
    assert bad(judge_store(StoreFacts(url, left_out=3), 5.0)) == {"store.left_out": "note"}
