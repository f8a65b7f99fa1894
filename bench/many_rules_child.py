"""Holds five million rules in a fresh process and questions it. Prints JSON; run by `bench.many_rules`."""

import gc
import json
import random
import sys
import threading
import time
from array import array
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from bench.processes import memory_bytes
from bench.rule_sets import PATH, changed_search_rule
from bench.timing import best_of_rounds, no_collections, percentile
from headgate import Limiter

LOOKUPS = 100_000
CHECKS = 50_000
CHANGES = 200
SETTLE_S = 1.0
MAX_KEYS = 8_000_000  # more counters than all checks here can start, so that none overflows
TIER = "pro"

Facts = tuple[str, str]  # user, org


def _load(path: str) -> tuple[Limiter, dict[str, float]]:
    (before,) = memory_bytes("VmRSS")
    limiter = Limiter(max_keys=MAX_KEYS)
    start = perf_counter_ns()
    rules = limiter.load_rules_file(path)
    load_s = (perf_counter_ns() - start) / 1e9
    gc.collect()
    time.sleep(SETTLE_S)
    settled, anonymous, peak = memory_bytes("VmRSS", "RssAnon", "VmHWM")
    return limiter, {
        "rules": rules,
        "load_s": round(load_s, 2),
        "before_rss_mb": round(before / 1e6, 1),
        "settled_rss_mb": round(settled / 1e6, 1),
        "settled_anonymous_mb": round(anonymous / 1e6, 1),
        "peak_rss_mb": round(peak / 1e6, 1),
    }


def _facts(orgs: int, count: int, seed: int) -> list[Facts]:
    rng = random.Random(seed)
    return [(f"u{rng.randrange(1000)}", f"o{rng.randrange(orgs)}") for _ in range(count)]


def _check_times_ns(limiter: Limiter, facts: Sequence[Facts]) -> list[int]:
    check, now = limiter.check, perf_counter_ns
    times_ns = array("q", bytes(8 * len(facts)))
    with no_collections():
        for i, (user, org) in enumerate(facts):
            start = now()
            check(user=user, tier=TIER, org=org, path=PATH, method="GET")
            times_ns[i] = now() - start
    return sorted(times_ns)


def _lookups(small: Limiter, small_orgs: int, large: Limiter, orgs: int, rounds: int) -> dict[str, float]:
    engines: dict[str, tuple[Any, int]] = {"small": (small, small_orgs), "large": (large, orgs)}
    times: dict[str, list[int]] = {}
    means = {name: float("inf") for name in engines}
    seeds = iter(range(10**6))

    def lookup_p50(name: str) -> float:
        engine, count = engines[name]
        # Other orgs every round: the second visit to the same ones would find them in the caches.
        names = [org for _, org in _facts(count, LOOKUPS, next(seeds))]
        times[name] = sorted(engine._bench_select(names, PATH, TIER))
        means[name] = min(means[name], sum(times[name]) / LOOKUPS)
        return float(percentile(times[name], 0.5))

    def check_p50(name: str) -> float:
        engine, count = engines[name]
        return float(percentile(_check_times_ns(engine, _facts(count, CHECKS, next(seeds))), 0.5))

    lookups = best_of_rounds({name: lambda name=name: lookup_p50(name) for name in engines}, rounds)  # type: ignore[misc]
    checks = best_of_rounds({name: lambda name=name: check_p50(name) for name in engines}, rounds)  # type: ignore[misc]
    return {
        **{f"lookup_{name}_p50_ns": ns for name, ns in lookups.items()},
        **{f"lookup_{name}_mean_ns": round(ns, 1) for name, ns in means.items()},
        **{f"check_{name}_p50_ns": ns for name, ns in checks.items()},
    }


def _change_one_by_one(limiter: Limiter, orgs: int) -> dict[str, float]:
    """From handing over the changed rule to the first check that goes by it."""
    rng = random.Random(4)
    took_ns = []
    for turn in range(CHANGES):
        org, count = rng.randrange(orgs), 5_000 + turn
        changed = changed_search_rule(org, count)
        start = perf_counter_ns()
        limiter.put_rule(changed)
        decision = limiter.check(user="u1", tier=TIER, org=f"o{org}", path=PATH, method="GET")
        took_ns.append(perf_counter_ns() - start)
        limits = {result.rule: result.limit for result in decision.results}
        if limits.get(f"org-{org}-search") != count:
            raise RuntimeError(f"the changed rule org-{org}-search is not enforced: limits are {limits}")
    took_ns.sort()
    return {
        "changes": CHANGES,
        "change_p50_ms": round(percentile(took_ns, 0.5) / 1e6, 4),
        "change_max_ms": round(took_ns[-1] / 1e6, 4),
    }


class _Changer(threading.Thread):
    """Changes one rule after another as fast as it can, until told to stop."""

    def __init__(self, limiter: Limiter, orgs: int) -> None:
        super().__init__(daemon=True)
        rng = random.Random(5)
        self._limiter = limiter
        self._rules = [changed_search_rule(rng.randrange(orgs), 6_000 + i) for i in range(1000)]
        self._stop_now = threading.Event()
        self.changes = 0

    def run(self) -> None:
        put_rule, rules = self._limiter.put_rule, self._rules
        while not self._stop_now.is_set():
            put_rule(rules[self.changes % len(rules)])
            self.changes += 1

    def stop(self) -> None:
        self._stop_now.set()
        self.join()


def _change_under_load(limiter: Limiter, orgs: int, rounds: int) -> dict[str, float]:
    quiet: list[list[int]] = []
    changing: list[list[int]] = []
    changes = 0
    changing_s = 0.0
    facts = _facts(orgs, 4 * CHECKS, 6)
    for _ in range(rounds):
        quiet.append(_check_times_ns(limiter, facts))
        changer = _Changer(limiter, orgs)
        start = perf_counter_ns()
        changer.start()
        changing.append(_check_times_ns(limiter, facts))
        changer.stop()
        changing_s += (perf_counter_ns() - start) / 1e9
        changes += changer.changes
    return {
        "quiet_p50_ns": min(percentile(times, 0.5) for times in quiet),
        "quiet_p999_ns": min(percentile(times, 0.999) for times in quiet),
        "changing_p50_ns": min(percentile(times, 0.5) for times in changing),
        "changing_p999_ns": min(percentile(times, 0.999) for times in changing),
        "changes_per_s": round(changes / changing_s, 1),
    }


def main(large_path: str, orgs: int, small_path: str, small_orgs: int, rounds: int) -> None:
    large, answer = _load(large_path)
    small = Limiter(max_keys=MAX_KEYS)
    small.load_rules_file(small_path)
    answer |= _lookups(small, small_orgs, large, orgs, rounds)
    answer |= _change_one_by_one(large, orgs)
    answer |= _change_under_load(large, orgs, rounds)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
