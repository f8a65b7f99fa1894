"""When a change is told to the fleet. Pure.

Changes that come one by one are told at once, and so are a few in a row. While they keep coming, what has gathered is
told every `EVERY_S`, so that a burst costs nodes and brokers a few deltas a second whatever its size. What is urgent (a
block, a switch) waits for no more than `URGENT_EVERY_S` since the last telling.
"""

from __future__ import annotations

EVERY_S = 0.2
URGENT_EVERY_S = 0.02
# So many are told at once before the rest has to wait.
IN_A_ROW = 5


class Pace:
    """Of tellings, by GCRA: `in_a_row` of them at once, and one more every `every_s`."""

    def __init__(self, every_s: float = EVERY_S, in_a_row: int = IN_A_ROW) -> None:
        self.every_s = every_s
        self._tolerance_s = (in_a_row - 1) * every_s
        self._told_s = float("-inf")
        # When the next would be due if all so far had come one every `every_s`.
        self._next_s = float("-inf")

    def wait_s(self, now_s: float, *, urgent: bool) -> float:
        """How long what is there must still wait; 0 when it is due."""
        least_s = self._told_s + min(URGENT_EVERY_S, self.every_s) - now_s
        if urgent:
            return max(0.0, least_s)
        return max(0.0, least_s, self._next_s - self._tolerance_s - now_s)

    def told(self, now_s: float) -> None:
        self._told_s = now_s
        # What was urgent was told whatever the pace; the rest need not wait the longer for it.
        self._next_s = min(max(self._next_s, now_s), now_s + self._tolerance_s) + self.every_s
