"""`check_limit` against the fastest of its peers: one key and many, admitted and refused."""

import random
from collections.abc import Callable, Sequence

from bench.figure import Effort, Figure
from bench.peers import ADMIT_ALL, REFUSE_ALL, Contestant, HeadgateLimit, LimitsFixedWindow, ThrottledGcra
from bench.timing import best_of_rounds

NAME = "check_limit"
TARGET_TIMES = 15.0
ALGORITHMS = ("gcra", "fixed_window", "sliding_window_counter")


def _timed(contestant: Contestant, keys: Sequence[str]) -> Callable[[], float]:
    def round_ns_per_call() -> float:
        took_ns = contestant.run(keys)
        contestant.settle()
        return took_ns / len(keys)

    return round_ns_per_call


def _measure(effort: Effort, keys: Sequence[str], limit: int) -> dict[str, float]:
    contestants: list[Contestant] = [
        HeadgateLimit(limit),
        *(HeadgateLimit(limit, algorithm=algorithm) for algorithm in ALGORITHMS),
        LimitsFixedWindow(limit),
        ThrottledGcra(limit),
    ]
    for contestant in contestants:
        contestant.run(keys)  # every key is known, and under REFUSE_ALL spent, before the first timed round
    best = best_of_rounds({c.name: _timed(c, keys) for c in contestants}, effort.rounds)
    for contestant in contestants:
        if contestant.admits(keys[0]) != (limit == ADMIT_ALL):
            raise RuntimeError(f"{contestant.name} did not {'admit' if limit == ADMIT_ALL else 'refuse'} as set up")
        contestant.settle()
    return best


def run(effort: Effort) -> list[Figure]:
    many = [f"user_{i}:login" for i in range(effort.pick(100_000, 5_000))]
    random.Random(1).shuffle(many)
    one = ["user_123:login"] * effort.pick(50_000, 5_000)
    figures = []
    for keys_name, keys in (("one key", one), (f"{len(many) // 1000}k keys", many)):
        for verdict, limit in (("admitted", ADMIT_ALL), ("refused", REFUSE_ALL)):
            best = _measure(effort, keys, limit)
            peer_ns = min(ns for name, ns in best.items() if not name.startswith("headgate"))
            raw = {f"{name} ns": round(ns, 1) for name, ns in best.items()}
            figures.append(
                Figure(
                    NAME,
                    f"check_limit, {keys_name}, {verdict}, vs the faster peer",
                    peer_ns / best["headgate default"],
                    "x",
                    TARGET_TIMES,
                    at_least=True,
                    raw=raw,
                )
            )
    return figures
