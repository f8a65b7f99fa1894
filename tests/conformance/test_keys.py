"""What a store is left with: keys a person can read, each of which goes away by itself."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import Limiter
from headgate.testing import FakeClock
from tests.conformance.stores import NODES_KEY, PATIENT_S, Store, keys_of
from tests.model.limits import ALGORITHMS
from tests.servers.server import Server
from tests.servers.slots import slot_of
from tests.servers.waiting import wait_for

WINDOW_S = 600
HEARTBEAT_TIMEOUT_S = 20


def rule(name: str, by: str | list[str], **fields: object) -> dict[str, object]:
    return {"name": name, "by": by, "limit": "10/minute"} | fields


@pytest.mark.parametrize(
    ("by", "facts", "key"),
    [
        ("user", {"user": "42"}, "hg1:{user:42}"),
        ("user", {"user": 42}, "hg1:{user:42}"),
        ("org", {"org": "acme"}, "hg1:{org:acme}"),
        ("ip", {"ip": "198.51.100.7"}, "hg1:{ip:198.51.100.7}"),
        ("ip", {"ip": "2001:db8:1:2:3::4"}, "hg1:{ip:2001%3Adb8%3A1%3A2%3A%3A}"),
        ("api_key", {"api_key": "key_7"}, "hg1:{api_key:key_7}"),
        ("global", {}, "hg1:{global}"),
        ("endpoint", {"path": "/a/../login/"}, "hg1:{endpoint:/login}"),
        (["user", "endpoint"], {"user": "42", "path": "/login"}, "hg1:{user:42}:endpoint=/login"),
        ("shop", {"descriptors": {"shop": "7"}}, "hg1:{global}:shop=7"),
        ("user", {"user": "a}b{c:d|e%f"}, "hg1:{user:a%7Db%7Bc%3Ad%7Ce%25f}"),
        ("user", {"user": "Zoë 🦀"}, "hg1:{user:Zoë 🦀}"),
        ("user", {"ip": "198.51.100.7"}, "hg1:{ip:198.51.100.7}"),
    ],
)
def test_a_subject_can_be_read_from_its_key(
    single: Store, by: str | list[str], facts: dict[str, Any], key: str
) -> None:
    limiter = single.limiter([rule("r", by)])
    assert limiter.check(**facts).path == "store"
    assert [found.decode() for found in single.all_keys()] == [key]


def test_a_plain_limit_is_kept_under_its_key(single: Store) -> None:
    assert single.limiter().check_limit("user_123:login", 5, 60).path == "store"
    assert single.all_keys() == [b"hg1:{key:user_123%3Alogin}"]


def test_all_limits_of_a_subject_are_in_one_record(single: Store) -> None:
    rules = [
        {"name": "r", "by": "user", "limit": "10/second;100/minute;1000/hour"},
        {"name": "trial", "by": "user", "limit": "5/second burst 9", "action": "shadow"},
    ]
    assert len(single.limiter(rules).check(user="42").results) == 4
    assert single.all_keys() == [b"hg1:{user:42}"]


def test_a_long_subject_is_named_by_a_hash_and_no_two_share_one(single: Store) -> None:
    limiter = single.limiter([rule("r", "user")])
    longest = "x" * 128
    for user in (longest, longest + "1", longest + "2"):
        assert limiter.check(user=user).remaining == 9
    keys = single.all_keys()
    assert f"hg1:{{user:{longest}}}".encode() in keys
    hashed = [key for key in keys if key.startswith(b"hg1:{user:#")]
    assert len(keys) == 3
    assert {len(key) for key in hashed} == {len("hg1:{user:#}") + 32}
    # Whoever calls himself by another's hash is somebody else.
    pretender = hashed[0].decode().removeprefix("hg1:{user:").removesuffix("}")
    assert limiter.check(user=pretender).remaining == 9


def test_a_subject_and_its_parts_are_in_one_slot(cluster_store: Store) -> None:
    cluster_store.flush()
    limiter = cluster_store.limiter([rule("a", "user"), rule("b", ["user", "endpoint"], algorithm="sliding_log")])
    assert len(limiter.check(user="42", path="/login").results) == 2
    keys = cluster_store.all_keys()
    assert len(keys) == 3
    assert {slot_of(key) for key in keys} == {slot_of("hg1:{user:42}")}


def test_every_key_goes_away_by_itself_within_two_windows(shared_store: Store) -> None:
    limiter = shared_store.limiter()
    for algorithm in ALGORITHMS:
        decision = limiter.check_limit(f"for {algorithm}", 5, WINDOW_S, cost=5, algorithm=algorithm)
        assert (decision.path, decision.allowed) == ("store", True)
        assert limiter.refund(decision, 1) == 1
        limiter.commit(limiter.check_limit(f"for {algorithm}", 5, WINDOW_S, algorithm=algorithm), 3)
    limiter.check_limit("a burst", f"1/{WINDOW_S}s burst 2", cost=2)
    wait_for(
        "a heartbeat",
        lambda: any(NODES_KEY in keys_of(server) for server in shared_store.holders()),
        HEARTBEAT_TIMEOUT_S,
    )
    assert len(shared_store.all_keys()) == len(ALGORITHMS) + 2, "a record for each, a log, a burst"
    for server in shared_store.holders():
        ttls_ms = {key: server.command("PTTL", key) for key in keys_of(server)}
        # One that is gone between the two commands has gone by itself; a moment is rounded up to its millisecond.
        assert all(0 < ttl_ms <= 2 * WINDOW_S * 1_000 + 1 or ttl_ms == -2 for ttl_ms in ttls_ms.values()), ttls_ms


def test_a_record_is_gone_when_its_window_is(single: Store) -> None:
    limiter = single.limiter()
    for algorithm in ALGORITHMS:
        limiter.check_limit(algorithm, 5, 1, algorithm=algorithm)
    assert single.all_keys()
    wait_for("all records are gone", lambda: not single.all_keys(), HEARTBEAT_TIMEOUT_S)


def test_a_peek_and_a_refusal_that_finds_nothing_leave_nothing(single: Store) -> None:
    limiter = single.limiter()
    limiter.peek_limit("k", 5, 60)
    limiter.check_limit("k", 5, 60, cost=0)
    assert not limiter.check_limit("k", 5, 60, cost=6)
    assert single.all_keys() == []


def test_a_reset_leaves_nothing(store: Store) -> None:
    rules = [rule("a", "user"), rule("b", "org", algorithm="sliding_log"), rule("c", "ip", limit="5/minute burst 5")]
    limiter = store.limiter(rules, clock=FakeClock())
    facts: dict[str, Any] = {"user": "u", "org": "o", "ip": "198.51.100.7"}
    limiter.check(**facts, cost=3)
    assert limiter.reset(**facts) == 3
    assert store.all_keys() == []
    assert {item.remaining for item in limiter.peek(**facts, cost=0).results} == {10, 5}
    limiter.check_limit("k", 5, 60)
    assert limiter.reset_limit("k", 5, 60) == 1
    assert limiter.peek_limit("k", 5, 60, cost=0).remaining == 5


def test_a_value_that_is_not_ours_is_replaced_and_never_an_error(single: Store) -> None:
    server = single.holders()[0]
    limiter = single.limiter()
    for value in (b"", b"x", b"\xff" * 200):
        server.command("SET", "hg1:{key:k}", value)
        decision = limiter.check_limit("k", 5, 60)
        assert (decision.path, decision.remaining) == ("store", 4)
    server.command("DEL", "hg1:{key:k}")
    server.command("RPUSH", "hg1:{key:k}", "a", "list")
    decision = limiter.check_limit("k", 5, 60)
    assert (decision.path, decision.remaining) == ("store", 4)


def test_databases_are_separate(own_server: Server) -> None:
    urls = [f"{own_server.url}/1", f"{own_server.url}/2", f"{own_server.unix_url}?db=1"]
    first, second, again = (Limiter(store=url, store_deadline=PATIENT_S) for url in urls)
    assert [limiter.check_limit("k", 5, 60).remaining for limiter in (first, second, again)] == [4, 4, 3]
    assert [own_server.client(db=number).exists("hg1:{key:k}") for number in (0, 1, 2)] == [0, 1, 1]
