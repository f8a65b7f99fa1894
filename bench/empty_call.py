"""`check_limit` against an empty call with the same arguments: what the decision itself costs."""

from collections.abc import Callable
from itertools import repeat
from time import perf_counter_ns
from typing import Any

from bench.figure import Effort, Figure
from bench.timing import best_of_rounds
from headgate import Limiter

NAME = "empty_call"
TARGET_TIMES = 2.0
KEY = "user_123:login"
LIMIT = 1_000_000_000


def _positional(call: Callable[..., object], calls: int) -> Callable[[], float]:
    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for _ in repeat(None, calls):
            call(KEY, LIMIT, 60)
        return (perf_counter_ns() - start) / calls

    return round_ns_per_call


def _keywords(call: Callable[..., object], calls: int) -> Callable[[], float]:
    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for _ in repeat(None, calls):
            call(KEY, limit=LIMIT, window=60)
        return (perf_counter_ns() - start) / calls

    return round_ns_per_call


def _loop(calls: int) -> Callable[[], float]:
    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for _ in repeat(None, calls):
            pass
        return (perf_counter_ns() - start) / calls

    return round_ns_per_call


def run(effort: Effort) -> list[Figure]:
    calls = effort.pick(200_000, 10_000)
    engine: Any = Limiter()  # Any: the empty call is private to this benchmark, and not in the contract
    best = best_of_rounds(
        {
            "check_limit": _positional(engine.check_limit, calls),
            "empty": _positional(engine._noop, calls),
            "check_limit keywords": _keywords(engine.check_limit, calls),
            "empty keywords": _keywords(engine._noop, calls),
            "loop": _loop(calls),
        },
        effort.rounds * 3,
    )
    figures = []
    for suffix, shown in (("", "positional arguments"), (" keywords", "keyword arguments")):
        check_ns, empty_ns = best["check_limit" + suffix], best["empty" + suffix]
        raw = {
            "check_limit ns": round(check_ns, 1),
            "empty call ns": round(empty_ns, 1),
            "loop alone ns": round(best["loop"], 1),
            "ratio without the loop": round((check_ns - best["loop"]) / (empty_ns - best["loop"]), 2),
        }
        name = f"check_limit vs an empty call, {shown}"
        figures.append(Figure(NAME, name, check_ns / empty_ns, "x", TARGET_TIMES, raw=raw))
    return figures
