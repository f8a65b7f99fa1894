"""A network that is slow, cuts, refuses, or works one way only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate import Limiter
from tests.faults.conftest import Recorder
from tests.faults.load import CALM, Load
from tests.faults.measure import (
    admitted_by_store,
    assert_promises,
    before,
    describe_admission,
    during,
    percentile_ms,
    row,
    used,
)
from tests.faults.store import breakers, kinds, probe_bound_s
from tests.servers.proxy import Proxy
from tests.servers.server import Server

BEFORE_S = 0.5
OUTAGE_S = 1.0
AFTER_S = 0.3
RECOVERY_TIMEOUT_S = 20
CUTS = 8
# Where it matters who decided: long enough that a busy machine does not miss it by chance.
PATIENT_S = 0.05
SLOW_SHARD_MS = 200
# Fewer bytes than any reply of a check has.
HALF_A_REPLY_BYTES = 7


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Server() as server, Proxy(server.port) as proxy:
        yield proxy


def heal(load: Load, proxy: Proxy) -> float:
    """Ends the fault; gives how long recovery took."""
    proxy.heal()
    load.fault_ends()
    recovery_s = load.wait_recovered(load.healed_s, CALM, RECOVERY_TIMEOUT_S)
    assert recovery_s <= probe_bound_s(load.healed_s - load.fault_s)
    load.run_for(AFTER_S)
    return recovery_s


@pytest.mark.parametrize("slow_ms", [3, 20, 200])
def test_a_slow_store_costs_no_check_more_than_its_deadline(proxy: Proxy, record: Recorder, slow_ms: int) -> None:
    limiter = Limiter(store=proxy.url)
    with Load(limiter) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            proxy.delay_s = slow_ms / 2 / 1_000
        load.run_for(OUTAGE_S)
        recovery_s = heal(load, proxy)
    assert_promises(load)
    if slow_ms >= 20:
        assert not any(sample.is_by_store for sample in during(load)[-100:])
        assert "breaker_opened" in kinds(limiter)
        recovery = f"{recovery_s:.2f} s"
    else:
        recovery = "not lost" if "breaker_opened" not in kinds(limiter) else f"{recovery_s:.2f} s"
    record(row(f"store {slow_ms} ms slower", load, recovery))


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
def test_a_reply_cut_in_two_is_decided_without_the_store_and_the_next_one_is_not(
    proxy: Proxy, record: Recorder, reset: bool
) -> None:
    """Half a reply is nobody's answer: above all not the next check's."""
    limiter = Limiter(store=proxy.url, store_deadline=PATIENT_S)
    with Load(limiter) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            for number in range(CUTS):
                proxy.cut_after(HALF_A_REPLY_BYTES + number, reset=reset)
                load.run_for(OUTAGE_S / CUTS)
        recovery_s = heal(load, proxy)
    assert proxy.cuts >= CUTS / 2
    assert_promises(load, deadline_s=PATIENT_S)
    assert any(sample.degraded for sample in during(load))
    # Each cut costs what was under way on one connection, not what came after it.
    assert sum(sample.is_by_store for sample in during(load)) > sum(sample.degraded for sample in during(load))
    for subject in CALM:
        assert admitted_by_store(load.samples, subject) <= used(limiter, subject)
    how = "reset" if reset else "closed"
    record(row(f"connection {how} half-way through a reply, {proxy.cuts} times", load, f"{recovery_s:.2f} s"))


def test_refused_connections_open_the_breaker_at_once(proxy: Proxy, record: Recorder) -> None:
    """SEMANTICS 5.3."""
    limiter = Limiter(store=proxy.url)
    with Load(limiter) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            proxy.refuse()
        load.run_for(OUTAGE_S)
        assert set(breakers(limiter).values()) == {"open"}
        recovery_s = heal(load, proxy)
    assert_promises(load)
    assert not any(sample.is_by_store for sample in during(load)[-100:])
    record(row("connections refused", load, f"{recovery_s:.2f} s"))


def test_answers_that_never_come_are_not_waited_for_though_questions_arrive(proxy: Proxy, record: Recorder) -> None:
    """What the store counted and could not say stays counted, and is not reported to it once more."""
    limiter = Limiter(store=proxy.url)
    with Load(limiter) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            proxy.blackhole_replies()
        load.run_for(OUTAGE_S)
        recovery_s = heal(load, proxy)
    assert_promises(load)
    assert "breaker_opened" in kinds(limiter)
    answered = sum(admitted_by_store(load.samples, subject) for subject in CALM)
    counted = sum(used(limiter, subject) for subject in CALM)
    passed = sum(sample.allowed for sample in load.samples if sample.subject in CALM)
    assert answered <= counted
    # All that passed is either counted or reported, but for what was under way just then; nothing is both.
    assert 0.95 * passed <= counted <= passed
    admission = f"{describe_admission(load)}; {counted:,} of {passed:,} counted"
    record(row("replies lost, requests not (a one-way cut)", load, f"{recovery_s:.2f} s", admission))


def test_one_slow_shard_of_three_leaves_the_other_two_alone(record: Recorder) -> None:
    """A breaker per shard, never a global one."""
    with Server() as first, Server() as second, Server() as third, Proxy(third.port) as proxy:
        ring = f"redis+ring://{first.address},{second.address},127.0.0.1:{proxy.port}"
        limiter = Limiter(store=ring, store_deadline=PATIENT_S)
        with Load(limiter, busy=None) as load:
            load.run_for(BEFORE_S)
            slow = [subject for subject in CALM if third.command("EXISTS", f"hg1:{{key:{subject}}}")]
            with load.breaking():
                proxy.delay_s = SLOW_SHARD_MS / 2 / 1_000
            load.run_for(OUTAGE_S)
            recovery_s = heal(load, proxy)
    assert 0 < len(slow) < len(CALM)
    assert_promises(load, deadline_s=PATIENT_S)
    on_slow = [sample for sample in during(load) if sample.subject in slow]
    on_others = [sample for sample in during(load) if sample.subject not in slow]
    assert not any(sample.is_by_store for sample in on_slow[-50:])
    served = sum(sample.is_by_store for sample in on_others)
    assert served >= 0.9 * len(on_others)
    quiet = [sample for sample in before(load) if sample.subject not in slow]
    added_ms = (percentile_ms(on_others, 0.5) or 0) - (percentile_ms(quiet, 0.5) or 0)
    assert added_ms < PATIENT_S * 1_000 / 2
    admission = f"{served / len(on_others):.0%} of the others' decided by the store, 0 refused wrongly"
    fault = f"one shard of three {SLOW_SHARD_MS} ms slower (deadline {PATIENT_S * 1_000:g} ms)"
    record(row(fault, load, f"{recovery_s:.2f} s", admission))
