"""Limiters over a shared store as the benchmarks use them, and the proof that the store decided."""

import time
from typing import Any, Unpack

from bench.rule_sets import FIVE_LIMITS
from headgate import Limiter
from headgate.limiter import Facts

# Figures of rates and costs are not about deadlines: an answer must not be lost to whatever else the machine does.
PATIENT_DEADLINE_S = 2.0
PLENTY = 1_000_000_000
USERS = 1_000
# A limiter's connections are made after the first checks, not before them.
WARM_UP_S = 0.2
# What `check_limit` is given after the key. None ever refuses, and one hit keeps each alive for a minute: a bucket is
# forgotten once it is empty again.
ROOMY: dict[str, tuple[int, int, int, str, int | None]] = {
    "sliding_window": (PLENTY, 60, 1, "sliding_window", None),
    "gcra": (1, 60, 1, "gcra", PLENTY),
}
TASKS = 64


def users(count: int) -> list[str]:
    return [f"u{number % USERS}" for number in range(count)]


def patient(url: str, rules: list[dict[str, Any]] | None = None) -> Limiter:
    limiter = Limiter(rules, store=url, store_deadline=PATIENT_DEADLINE_S)
    warm_up(limiter)
    return limiter


def warm_up(limiter: Limiter) -> None:
    end_s = time.monotonic() + WARM_UP_S
    while time.monotonic() < end_s:
        limiter.check_limit("warm-up", *ROOMY["gcra"])


def patient_with_five(url: str, rules: list[dict[str, Any]], **facts: Unpack[Facts]) -> Limiter:
    """The facts are some that meet five limits."""
    limiter = patient(url, rules)
    decision = limiter.check(**facts)
    if (decision.path, len(decision.results)) != ("store", FIVE_LIMITS):
        raise RuntimeError(f"{len(decision.results)} limits were decided by {decision.path}")
    return limiter


def require_store_decided(*limiters: Limiter, or_else: tuple[str, ...] = ()) -> None:
    """A check that was decided without the store would be timed as a very fast one."""
    for limiter in limiters:
        counted = limiter.stats()
        fine = {f"path_{path}" for path in ("store", *or_else)}
        others = {name: n for name, n in counted.items() if name.startswith("path_") and n and name not in fine}
        if others:
            raise RuntimeError(f"not everything was decided by the store: {others}")
