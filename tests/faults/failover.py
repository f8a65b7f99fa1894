"""Losing a primary under load: what its replica did not have yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate import Limiter
from tests.faults.load import Load
from tests.faults.measure import admitted_by_store, assert_in_time, assert_policy, before, used

BEFORE_S = 1.0
AFTER_S = 0.5
TIMEOUT_S = 40
# Long enough that a busy machine does not miss it by chance.
PATIENT_S = 0.05
LOST_PART_MAX = 0.01
PART_S = 60


@dataclass(frozen=True)
class Loss:
    recovery_s: float
    lost: int
    minute: float
    """Checks that a minute of this load makes."""

    def __str__(self) -> str:
        return f"{self.lost:,} writes lost, {self.lost / self.minute:.2%} of a minute's"


def lose_primary(limiter: Limiter, load: Load, subjects: Sequence[str], kill: Callable[[], object]) -> float:
    """Inside the load; gives how long it took until the store decided again for each of the subjects."""
    load.run_for(BEFORE_S)
    with load.breaking():
        kill()
    recovery_s = load.wait_recovered(load.fault_s, subjects, TIMEOUT_S)
    load.fault_ends()
    load.run_for(AFTER_S)
    return recovery_s


def measure_loss(limiter: Limiter, load: Load, subjects: Sequence[str], recovery_s: float) -> Loss:
    """The policy is `closed`: nothing passes without the store, so whatever passed and is not counted was lost."""
    passed = sum(admitted_by_store(load.samples, subject) for subject in subjects)
    counted = sum(used(limiter, subject) for subject in subjects)
    spent_s = load.fault_s - min(sample.start_s for sample in load.samples)
    return Loss(recovery_s, max(0, passed - counted), len(before(load)) / spent_s * PART_S)


def assert_kept_promises(load: Load, loss: Loss) -> None:
    assert load.errors == []
    assert_in_time(load, PATIENT_S)
    assert_policy(load.samples, "closed")
    assert loss.lost <= loss.minute * LOST_PART_MAX, str(loss)
