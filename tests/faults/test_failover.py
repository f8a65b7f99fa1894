"""Primaries lost and replicas promoted, slots moved, and a cluster that stops altogether."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from headgate import Limiter
from tests.faults.conftest import Recorder
from tests.faults.failover import PATIENT_S, assert_kept_promises, lose_primary, measure_loss
from tests.faults.load import CALM, Load
from tests.faults.measure import assert_promises, during, row, used, while_broken
from tests.faults.store import details, kinds
from tests.servers.cluster import SHARDS, Cluster
from tests.servers.sentinel import Sentinels
from tests.servers.slots import slot_of
from tests.servers.waiting import wait_for

BEFORE_S = 0.5
AFTER_S = 0.5
STEP_S = 0.1
TIMEOUT_S = 40
EXACT_DEADLINE_S = 2.0
MOVING = 12
KEYS_A_STEP = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Each test leaves it whole."""
    with Cluster() as cluster:
        yield cluster


def record_key(subject: str) -> str:
    return f"hg1:{{key:{subject}}}"


def test_sentinels_fail_over_and_the_limiter_follows(record: Recorder) -> None:
    with Sentinels() as sentinels:
        limiter = Limiter(store=sentinels.url, store_deadline=PATIENT_S, on_store_failure="closed")
        with Load(limiter, busy=None) as load:
            recovery_s = lose_primary(limiter, load, CALM, sentinels.kill_primary)
        loss = measure_loss(limiter, load, CALM, recovery_s)
    assert_kept_promises(load, loss)
    assert not while_broken(load)[0].is_by_store
    record(row("Sentinel: primary killed, replica promoted", load, f"{recovery_s:.1f} s", str(loss)))


def test_a_cluster_promotes_a_replica_and_the_limiter_follows(cluster: Cluster, record: Recorder) -> None:
    limiter = Limiter(store=cluster.url, store_deadline=PATIENT_S, on_store_failure="closed")
    owners = {subject: cluster.primary_of(record_key(subject)) for subject in CALM}
    doomed = cluster.primary(1)
    lost = [subject for subject in CALM if owners[subject] is doomed]
    assert lost
    assert len(lost) < len(CALM)
    with Load(limiter, busy=None) as load:
        recovery_s = lose_primary(limiter, load, lost, doomed.kill9)
    loss = measure_loss(limiter, load, CALM, recovery_s)
    assert_kept_promises(load, loss)
    on_others = [sample for sample in during(load) if sample.subject not in lost]
    assert sum(sample.is_by_store for sample in on_others) >= 0.9 * len(on_others)
    assert "topology_changed" in kinds(limiter)
    doomed.restart()
    cluster.wait_settled()
    record(row("Cluster: one primary of three killed, replica promoted", load, f"{recovery_s:.1f} s", str(loss)))


def test_a_slot_that_moves_loses_no_count_and_refuses_nobody(cluster: Cluster, record: Recorder) -> None:
    """All subjects of the load are in one slot, which moves away and back while they are counted."""
    slot = slot_of(record_key("moving-0"))
    names = (f"moving-{number}" for number in itertools.count())
    subjects = list(itertools.islice((name for name in names if slot_of(record_key(name)) == slot), MOVING))
    home = next(shard for shard in range(SHARDS) if cluster.primary(shard) is cluster.primary_of_slot(slot))
    away = (home + 1) % SHARDS
    limiter = Limiter(store=cluster.url, store_deadline=EXACT_DEADLINE_S)
    with Load(limiter, subjects=subjects, busy=None) as load:
        load.run_for(BEFORE_S)
        with load.breaking():
            for shard in (away, home):
                for _ in cluster.migrate_slot(slot, shard, KEYS_A_STEP):
                    load.run_for(STEP_S)
        load.fault_ends()
        load.run_for(AFTER_S)
    assert load.errors == []
    assert {sample.path for sample in load.samples} == {"store"}
    assert not any(sample.degraded for sample in load.samples)
    passed = sum(sample.allowed for sample in load.samples)
    counted = sum(used(limiter, subject) for subject in subjects)
    assert passed == counted == len(load.samples)
    record(row("Cluster: a slot moved away and back", load, "not lost", f"{counted:,} of {passed:,} counted"))


def test_a_cluster_that_is_down_is_done_without_until_it_is_whole(record: Recorder) -> None:
    """`cluster-require-full-coverage yes`: one primary lost without a replica stops the others too."""
    with Cluster(replicas=0, full_coverage=True) as cluster:
        limiter = Limiter(store=cluster.url)
        survivor = cluster.node(0)
        with Load(limiter, busy=None) as load:
            load.run_for(BEFORE_S)
            with load.breaking():
                killed = cluster.kill_primary(2)
            down = b"cluster_state:fail"
            wait_for("the cluster is down", lambda: down in survivor.command("CLUSTER", "INFO"), TIMEOUT_S)
            load.run_for(AFTER_S)
            down_from = len(load.samples)
            load.run_for(AFTER_S)
            down_until = len(load.samples)
            killed.restart()
            cluster.wait_settled()
            load.fault_ends()
            recovery_s = load.wait_recovered(load.healed_s, CALM, TIMEOUT_S)
            load.run_for(AFTER_S)
    assert_promises(load)
    assert not any(sample.is_by_store for sample in load.samples[down_from:down_until])
    record(row("Cluster: down (full coverage, one primary lost)", load, f"{recovery_s:.2f} s", "0 refused wrongly"))


def test_a_cluster_that_is_away_at_start_up_is_found_when_it_comes(record: Recorder) -> None:
    with Cluster(replicas=0) as cluster:
        for node in cluster.nodes:
            node.kill9()
        limiter = Limiter(store=cluster.url)
        assert "not reachable" in details(limiter, "warning")[0]
        load = Load(limiter, busy=None, is_store_up=False)
        with load.breaking(), load:
            load.run_for(BEFORE_S)
            for node in cluster.nodes:
                node.restart()
            cluster.wait_settled()
            load.fault_ends()
            recovery_s = load.wait_recovered(load.healed_s, CALM, TIMEOUT_S)
            load.run_for(AFTER_S)
    assert_promises(load)
    record(row("Cluster: away when the program starts", load, f"{recovery_s:.2f} s", "0 refused wrongly"))
