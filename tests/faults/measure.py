"""What a load that met a fault says: how long checks took, who answered, and whether too much or too little passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headgate import Limiter
from headgate._core import Decision
from tests.faults.load import BUSY, BUSY_LIMIT, CALM_LIMIT, DEADLINE_MARGIN, DEADLINE_S, WINDOW_S, Load, Sample
from tests.servers.waiting import wait_for

PEEK_TIMEOUT_S = 10
FALLBACKS = {"open": "fallback_open", "closed": "fallback_closed", "local": "fallback_local"}


@dataclass(frozen=True)
class Row:
    """One line of the page."""

    fault: str
    before_p50_ms: float | None
    before_p99_ms: float | None
    during_p50_ms: float | None
    during_p99_ms: float | None
    asked: int
    answered: int
    by_policy: int
    admission: str
    recovery: str
    theme: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def percentile_ms(samples: Sequence[Sample], part: float) -> float | None:
    if not samples:
        return None
    took_s = sorted(sample.took_s for sample in samples)
    return took_s[min(len(took_s) - 1, int(len(took_s) * part))] * 1_000


def before(load: Load) -> list[Sample]:
    return [sample for sample in load.samples if sample.start_s + sample.took_s < load.fault_s]


def during(load: Load) -> list[Sample]:
    return [sample for sample in load.samples if load.fault_s <= sample.start_s < load.healed_s]


def while_broken(load: Load) -> list[Sample]:
    """Without those begun while the store was only about to break."""
    return [sample for sample in load.samples if load.broken_s <= sample.start_s < load.healed_s]


def admitted(samples: Sequence[Sample], subject: str = BUSY) -> int:
    return sum(sample.allowed for sample in samples if sample.subject == subject)


def admitted_by_store(samples: Sequence[Sample], subject: str = BUSY) -> int:
    return admitted([sample for sample in samples if sample.is_by_store], subject)


def over(load: Load) -> int:
    """How many of the busy subject's checks passed beyond its limit."""
    return max(0, admitted(load.samples) - BUSY_LIMIT)


def under(load: Load) -> int:
    """How many checks of calm subjects were refused, none of which ever had to be."""
    return sum(not sample.allowed for sample in load.samples if sample.subject != BUSY)


def used(limiter: Limiter, subject: str, limit: int = CALM_LIMIT) -> int:
    """What the store has counted."""

    def peek() -> Decision | None:
        decision = limiter.peek_limit(subject, limit, WINDOW_S, 0)
        return decision if decision.path == "store" else None

    # A busy machine may be too late for a peek as for any check.
    remaining = wait_for(f"a peek at {subject}", peek, PEEK_TIMEOUT_S, limiter.store_status).remaining
    assert remaining is not None
    return limit - remaining


def assert_promises(
    load: Load, policy: str = "open", *, busy_limit: int = BUSY_LIMIT, deadline_s: float = DEADLINE_S
) -> None:
    """What holds whatever happens to a store: SEMANTICS 5.1, and DESIGN's deadline outside the client."""
    assert load.errors == []
    assert len(during(load)) > 0
    assert_in_time(load, deadline_s)
    assert_policy(load.samples, policy)
    assert admitted_by_store(load.samples) <= busy_limit
    if policy == "open":
        assert under(load) == 0


def assert_in_time(load: Load, deadline_s: float = DEADLINE_S) -> None:
    longest = max(load.samples, key=load.blamed_s)
    assert load.blamed_s(longest) <= deadline_s * DEADLINE_MARGIN, (longest, load.stalls)


def assert_policy(samples: Sequence[Sample], policy: str) -> None:
    """Whatever was decided without the store was decided as the policy says, and says so."""
    for sample in samples:
        assert sample.degraded == (sample.path == FALLBACKS[policy]), sample
        if not sample.degraded:
            assert sample.path in ("store", "refused_memory"), sample
            assert sample.status == (200 if sample.allowed else 429), sample
        elif policy == "open":
            assert sample.allowed, sample
            assert sample.status == 200, sample
        elif policy == "closed":
            assert (sample.allowed, sample.status, sample.retry_after_s) == (False, 503, 1.0), sample
        else:
            assert sample.status == (200 if sample.allowed else 429), sample


def describe_admission(load: Load) -> str:
    return f"{over(load):,} over a limit of {BUSY_LIMIT}, {under(load):,} refused wrongly"


def row(fault: str, load: Load, recovery: str, admission: str | None = None) -> Row:
    quiet, troubled = before(load), during(load)
    return Row(
        fault,
        percentile_ms(quiet, 0.5),
        percentile_ms(quiet, 0.99),
        percentile_ms(troubled, 0.5),
        percentile_ms(troubled, 0.99),
        asked=len(troubled) + len(load.errors),
        answered=len(troubled),
        by_policy=sum(sample.degraded for sample in troubled),
        admission=admission or describe_admission(load),
        recovery=recovery,
    )
