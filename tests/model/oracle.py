"""What was admitted, held against what was promised: true for any implementation, known only from outside."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.model.limits import Limit

Admitted = Sequence[tuple[int, int]]
"""(time in µs, cost) of everything admitted, in order of time."""


def most_in_any_window(admitted: Admitted, window_us: int) -> int:
    """The most that any window of this length held. Two hits exactly a window apart are not in one window."""
    most = held = start = 0
    for at_us, cost in admitted:
        held += cost
        while admitted[start][0] <= at_us - window_us:
            held -= admitted[start][1]
            start += 1
        most = max(most, held)
    return most


def most_in_any_aligned_window(admitted: Admitted, window_us: int) -> int:
    held: dict[int, int] = {}
    for at_us, cost in admitted:
        held[at_us // window_us] = held.get(at_us // window_us, 0) + cost
    return max(held.values(), default=0)


def bucket_excess(admitted: Admitted, limit: Limit) -> Fraction:
    """By how much some stretch t held more than capacity + N·t/W; not positive when none did.

    The stretch from hit i to hit j holds sum(i..j); the worst i for each j is found as j advances.
    """
    worst = Fraction(-limit.capacity)
    before = Fraction(0)  # the largest (rate·t_i - spent before i) so far
    spent, first = 0, True
    for at_us, cost in admitted:
        drained = Fraction(limit.count * at_us, limit.window_us)
        before = drained - spent if first else max(before, drained - spent)
        first = False
        spent += cost
        worst = max(worst, spent + before - drained - limit.capacity)
    return worst


def excess(admitted: Admitted, limit: Limit) -> Fraction:
    """By how much an algorithm's promise was broken; not positive when it was kept."""
    if limit.algorithm == "gcra":
        return bucket_excess(admitted, limit)
    if limit.algorithm == "fixed_window":
        return Fraction(most_in_any_aligned_window(admitted, limit.window_us) - limit.count)
    held = most_in_any_window(admitted, limit.window_us)
    promised = 2 * limit.count if limit.algorithm == "sliding_window_counter" else limit.count
    return Fraction(held - promised)
