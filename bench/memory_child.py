"""Fills one table in a fresh process and follows its resident memory. Prints JSON; run by `bench.memory`."""

import json
import sys
from collections.abc import Callable

from bench.peers import ADMIT_ALL, HeadgateLimit, LimitsFixedWindow, ThrottledGcra
from bench.processes import forget_peak_memory, memory_bytes
from headgate import Limiter

MAX_KEYS = 2_000_000
WINDOW_S = 86_400
Fill = Callable[[int, int], object]


def _key(i: int) -> str:
    return f"user_{i}:login"


def _headgate(algorithm: str, hits: int) -> Fill:
    check_limit = Limiter(max_keys=MAX_KEYS).check_limit

    def fill(start: int, stop: int) -> None:
        for i in range(start, stop):
            for _ in range(hits):
                if not check_limit(_key(i), 10, WINDOW_S, 1, algorithm):
                    raise RuntimeError("a hit within its limit was refused: the table does not hold every key")

    return fill


def _dict() -> Fill:
    counts: dict[str, int] = {}

    def fill(start: int, stop: int) -> None:
        # Its own int for every key, as a time or a large count would be.
        counts.update((_key(i), 1_000_000 + i) for i in range(start, stop))

    return fill


def _peer(contestant: HeadgateLimit | LimitsFixedWindow | ThrottledGcra) -> Fill:
    def fill(start: int, stop: int) -> None:
        contestant.run(map(_key, range(start, stop)))
        contestant.settle()

    return fill


def _filler(variant: str) -> Fill:
    if variant == "sliding_window_5":
        return _headgate("sliding_window", 5)
    if variant == "dict":
        return _dict()
    if variant == "throttled":
        return _peer(ThrottledGcra(ADMIT_ALL, MAX_KEYS))
    if variant == "limits":
        return _peer(LimitsFixedWindow(ADMIT_ALL))
    return _headgate(variant, 1)


def main(variant: str, first: int, last: int, step: int) -> None:
    base = memory_bytes("VmRSS")[0]
    fill = _filler(variant)
    worst_peak = worst_sampled = 0.0
    worst_at = 0
    for keys in range(step, last + 1, step):
        forget_peak_memory()
        fill(keys - step, keys)
        if keys < first:
            continue
        sampled, peak = (size - base for size in memory_bytes("VmRSS", "VmHWM"))
        # The peak between two samples: a table that is copied to grow has both copies for a moment.
        if peak / keys > worst_peak:
            worst_peak, worst_at = peak / keys, keys
        worst_sampled = max(worst_sampled, sampled / keys)
    last_sampled = memory_bytes("VmRSS")[0] - base
    print(
        json.dumps(
            {
                "worst_peak_bytes": round(worst_peak, 1),
                "worst at keys": worst_at,
                "worst between peaks B": round(worst_sampled, 1),
                "at the last key B": round(last_sampled / last, 1),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
