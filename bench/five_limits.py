"""`check(...)` meeting five limits against five hits of `limits`, which is how its users compose limits."""

import json
import random
from collections.abc import Callable
from time import perf_counter_ns

from limits import RateLimitItemPerHour
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from bench.figure import Effort, Figure
from bench.rule_sets import FIVE_LIMITS, PATH, five_limit_rules
from bench.timing import best_of_rounds
from headgate import Limiter

NAME = "five_limits"
TARGET_TIMES = 25.0

Request = tuple[str, str, str]


def _requests(count: int) -> list[Request]:
    rng = random.Random(2)
    return [
        (
            f"u{rng.randrange(10_000)}",
            f"o{rng.randrange(500)}",
            f"198.51.{rng.randrange(100)}.{rng.randrange(250)}",
        )
        for _ in range(count)
    ]


def _headgate(requests: list[Request], limiter: Limiter) -> Callable[[], float]:
    check = limiter.check

    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for user, org, ip in requests:
            check(user=user, tier="free", org=org, ip=ip, path=PATH, method="GET")
        return (perf_counter_ns() - start) / len(requests)

    return round_ns_per_call


def _limits(requests: list[Request]) -> Callable[[], float]:
    storage = MemoryStorage()
    hit = FixedWindowRateLimiter(storage).hit
    # Different amounts keep the five apart: `limits` names a counter by its limit and the identifiers.
    by_user, by_org, by_ip, by_endpoint, everyone = (RateLimitItemPerHour(10**9 + i) for i in range(FIVE_LIMITS))

    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for user, org, ip in requests:
            hit(by_user, user)
            hit(by_org, org)
            hit(by_ip, ip)
            hit(by_endpoint, PATH)
            hit(everyone)
        took_ns = perf_counter_ns() - start
        storage.timer.join()
        return took_ns / len(requests)

    return round_ns_per_call


def run(effort: Effort) -> list[Figure]:
    requests = _requests(effort.pick(30_000, 2_000))
    limiter = Limiter()
    limiter.load_rules(json.dumps({"rules": five_limit_rules()}))
    met = len(limiter.check(user="u1", tier="free", org="o1", ip="198.51.1.1", path=PATH, method="GET").results)
    if met != FIVE_LIMITS:
        raise RuntimeError(f"the check met {met} limits instead of {FIVE_LIMITS}")
    best = best_of_rounds({"headgate": _headgate(requests, limiter), "limits": _limits(requests)}, effort.rounds)
    return [
        Figure(
            NAME,
            "check(...) meeting 5 limits vs five limits hits",
            best["limits"] / best["headgate"],
            "x",
            TARGET_TIMES,
            at_least=True,
            raw={"check ns": round(best["headgate"], 1), "five limits hits ns": round(best["limits"], 1)},
        )
    ]
