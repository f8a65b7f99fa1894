"""One server that dies, hangs, forgets, fills up, locks us out or turns into a replica, while checks go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from headgate import Limiter
from tests.faults.conftest import Recorder
from tests.faults.load import BUSY_LIMIT, CALM, Load
from tests.faults.measure import admitted_by_store, assert_promises, during, row, used, while_broken
from tests.faults.store import details, kinds, probe_bound_s, wait_breaker
from tests.servers.ports import HOST, free_port
from tests.servers.server import Server
from tests.servers.waiting import wait_for

BEFORE_S = 0.5
OUTAGE_S = 1.0
LONG_OUTAGE_S = 3.0
AFTER_S = 0.3
RECOVERY_TIMEOUT_S = 20
EXACT_DEADLINE_S = 2.0
FILLER_BYTES = 4_000_000


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def suffer(load: Load, breaks: Callable[[], None], mends: Callable[[], None], outage_s: float = OUTAGE_S) -> float:
    """Breaks and mends the store under a running load; gives how long recovery took."""
    load.run_for(BEFORE_S)
    with load.breaking():
        breaks()
    load.run_for(outage_s)
    mends()
    load.fault_ends()
    recovery_s = load.wait_recovered(load.healed_s, CALM, RECOVERY_TIMEOUT_S)
    assert recovery_s <= probe_bound_s(load.healed_s - load.fault_s)
    load.run_for(AFTER_S)
    return recovery_s


def test_a_killed_server_is_done_without_until_it_is_back(server: Server, record: Recorder) -> None:
    """The restarted server is empty: it may admit the limit once more, less what it is told was admitted meanwhile."""
    limiter = Limiter(store=server.url)
    with Load(limiter) as load:
        recovery_s = suffer(load, server.kill9, server.restart)
    assert_promises(load, busy_limit=2 * BUSY_LIMIT)
    assert not any(sample.is_by_store for sample in while_broken(load))
    assert {"shard_lost", "breaker_opened", "breaker_closed", "shard_returned", "reconciled"} <= set(kinds(limiter))
    record(row("server killed (`kill -9`), empty when it returns", load, f"{recovery_s:.2f} s"))


def test_a_server_that_restarts_at_once_costs_no_more_than_the_limit_once_again(
    server: Server, record: Recorder
) -> None:
    limiter = Limiter(store=server.url)
    with Load(limiter) as load:
        recovery_s = suffer(load, server.restart, lambda: None, outage_s=0)
    assert_promises(load, busy_limit=2 * BUSY_LIMIT)
    record(row("server restarted, empty", load, f"{recovery_s:.2f} s"))


def test_a_hung_server_is_as_good_as_a_dead_one(server: Server, record: Recorder) -> None:
    """SIGSTOP: the kernel goes on accepting connections and bytes, nobody reads them."""
    limiter = Limiter(store=server.url)
    with Load(limiter) as load:
        recovery_s = suffer(load, server.stop_signal, server.cont)
    assert_promises(load)
    assert not any(sample.is_by_store for sample in during(load)[-100:])
    assert "breaker_opened" in kinds(limiter)
    record(row("server hung (`SIGSTOP`), then continued", load, f"{recovery_s:.2f} s"))


def test_flushed_scripts_are_loaded_again_and_no_check_notices(server: Server, record: Recorder) -> None:
    """SEMANTICS 4.3."""
    limiter = Limiter(store=server.url, store_deadline=EXACT_DEADLINE_S)
    with Load(limiter) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            for _ in range(5):
                server.command("SCRIPT", "FLUSH")
                load.run_for(0.1)
        load.fault_ends()
        load.run_for(AFTER_S)
    assert load.errors == []
    assert not any(sample.degraded for sample in load.samples)
    assert admitted_by_store(load.samples) == BUSY_LIMIT
    assert sum(used(limiter, subject) for subject in CALM) == sum(sample.subject in CALM for sample in load.samples)
    assert "script_reloaded" in kinds(limiter)
    record(row("scripts flushed five times (`SCRIPT FLUSH`)", load, "not lost"))


def test_a_changed_password_is_a_lost_store_until_it_is_changed_back(record: Recorder) -> None:
    with Server(password="first") as server:
        limiter = Limiter(store=server.url)

        def lock_out() -> None:
            server.command("CONFIG", "SET", "requirepass", "second")
            server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        with Load(limiter) as load:
            recovery_s = suffer(load, lock_out, lambda: server.command("CONFIG", "SET", "requirepass", "first"))
    assert_promises(load)
    assert any("password is wrong" in detail for detail in details(limiter, "breaker_opened"))
    record(row("password changed and clients thrown out", load, f"{recovery_s:.2f} s"))


def test_a_full_server_that_evicts_nothing_is_done_without(record: Recorder) -> None:
    """Its errors come at once, so checks stay fast; what it refuses to write it has not counted."""
    with Server(maxmemory_policy="noeviction") as server:
        limiter = Limiter(store=server.url)

        def fill() -> None:
            server.command("SET", "filler", b"x" * FILLER_BYTES)
            server.command("CONFIG", "SET", "maxmemory", FILLER_BYTES // 2)

        def empty() -> None:
            server.command("CONFIG", "SET", "maxmemory", 0)
            server.command("DEL", "filler")

        with Load(limiter) as load:
            recovery_s = suffer(load, fill, empty)
    assert_promises(load)
    assert any("OOM" in detail for detail in details(limiter, "breaker_opened"))
    record(row("server out of memory (`noeviction`)", load, f"{recovery_s:.2f} s"))


def test_a_program_that_only_waits_in_threads_finds_its_store_again(server: Server) -> None:
    """Its checks use a connection of their own, and all errors are seen there: the breaker must close all the same."""
    limiter = Limiter(store=server.url)
    with Load(limiter, busy=None, threads=1, tasks=0, pause_s=0.001) as load:
        suffer(
            load,
            lambda: server.command("CONFIG", "SET", "maxmemory", 1),
            lambda: server.command("CONFIG", "SET", "maxmemory", 0),
        )
    assert_promises(load)


def test_a_primary_made_a_replica_is_done_without_until_it_is_primary_again(server: Server, record: Recorder) -> None:
    """A replica copies its primary, so it comes back with that one's counters: none here."""
    with Server() as other:
        limiter = Limiter(store=server.url)
        with Load(limiter) as load:
            recovery_s = suffer(
                load,
                lambda: server.command("REPLICAOF", HOST, other.port),
                lambda: server.command("REPLICAOF", "NO", "ONE"),
            )
    assert_promises(load, busy_limit=2 * BUSY_LIMIT)
    assert not any(sample.is_by_store for sample in during(load)[-100:])
    assert "breaker_opened" in kinds(limiter)
    record(row("primary made a read-only replica, then primary again", load, f"{recovery_s:.2f} s"))


def test_after_a_long_outage_the_store_is_back_within_the_wait_it_had_grown_to(
    server: Server, record: Recorder
) -> None:
    """SEMANTICS 5.3: probes after 100 ms, doubling; a store back after seconds is not left alone for half a minute."""
    limiter = Limiter(store=server.url)
    with Load(limiter, pause_s=0.005) as load:
        recovery_s = suffer(load, server.kill9, server.restart, LONG_OUTAGE_S)
    assert_promises(load, busy_limit=2 * BUSY_LIMIT)
    assert kinds(limiter).count("breaker_opened") >= 1
    record(row(f"server gone for {LONG_OUTAGE_S:g} s", load, f"{recovery_s:.2f} s"))


def test_a_store_that_is_away_at_start_up_is_found_when_it_comes(record: Recorder) -> None:
    port = free_port()
    limiter = Limiter(store=f"redis://{HOST}:{port}")
    assert "not reachable" in details(limiter, "warning")[0]
    load = Load(limiter, busy=None, is_store_up=False)
    with load.breaking(), load:
        load.run_for(OUTAGE_S)
        with Server(port=port):
            load.fault_ends()
            recovery_s = load.wait_recovered(load.healed_s, CALM, RECOVERY_TIMEOUT_S)
            load.run_for(AFTER_S)
    assert recovery_s <= probe_bound_s(load.healed_s - load.fault_s)
    assert_promises(load)
    assert not any(sample.is_by_store for sample in during(load))
    record(row("store away when the program starts", load, f"{recovery_s:.2f} s", "0 refused wrongly"))


def test_what_passed_during_an_outage_is_counted_when_it_is_over(server: Server, record: Recorder) -> None:
    """The server is killed while nothing is under way, so that it is certain what it was never told of."""
    limiter = Limiter(store=server.url, store_deadline=EXACT_DEADLINE_S)
    wait_for("the store", lambda: limiter.check_limit("k", 1_000, 3_600).path == "store", RECOVERY_TIMEOUT_S)
    server.kill9()
    wait_breaker(limiter, "open")
    decisions = [limiter.check_limit("k", 1_000, 3_600, cost) for cost in (1, 2, 3) for _ in range(50)]
    assert {decision.path for decision in decisions} == {"fallback_open"}
    server.restart()
    wait_for("the report", lambda: "reconciled" in kinds(limiter), RECOVERY_TIMEOUT_S)
    told = 50 * (1 + 2 + 3)
    wait_for("the count", lambda: used(limiter, "k", 1_000) == told, RECOVERY_TIMEOUT_S)
    limiter.check_limit("k", 1_000, 3_600)
    assert used(limiter, "k", 1_000) == told + 1


def test_what_passed_while_the_server_was_full_is_counted_when_it_is_not(server: Server) -> None:
    """A full server still answers a PING: it must not be told what it cannot write."""
    limiter = Limiter(store=server.url, store_deadline=EXACT_DEADLINE_S)
    wait_for("the store", lambda: limiter.check_limit("k", 1_000, 3_600).path == "store", RECOVERY_TIMEOUT_S)
    server.command("CONFIG", "SET", "maxmemory", 1)
    for _ in range(300):
        assert limiter.check_limit("k", 1_000, 3_600).path == "fallback_open"
        time.sleep(0.003)
    server.command("CONFIG", "SET", "maxmemory", 0)
    wait_for("the store again", lambda: used(limiter, "k", 1_000) > 250, RECOVERY_TIMEOUT_S, limiter.store_status)
    assert used(limiter, "k", 1_000) <= 1 + 300
