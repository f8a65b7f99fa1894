"""What a record says of a limit, read by the exact model's own search: remaining, retry, reset."""

from __future__ import annotations

from fractions import Fraction

from tests.model.algorithms import Counter
from tests.model.limits import Charge
from tests.scripts.calls import ScriptLimit
from tests.scripts.record import BUCKET, GROUPS, PAIR, WIDE_GROUPS, WINDOW, Entry


class Stored(Counter):
    """An entry as it was decoded, or none. `hits` are those of its log, dead ones left out."""

    def __init__(self, limit: ScriptLimit, entry: Entry | None, hits: list[tuple[int, int]]) -> None:
        super().__init__(limit.limit)
        self.script_limit, self.entry, self.hits = limit, entry, hits
        self.last_us = entry.at_us if entry is not None else 0

    def used(self, now_us: int) -> Fraction | int:
        entry, window_us = self.entry, self.limit.window_us
        if entry is None:
            return 0
        now_us = max(now_us, entry.at_us)
        windows = now_us // window_us - entry.at_us // window_us
        if entry.kind == BUCKET:
            return self._level(entry, now_us)
        if entry.kind == WINDOW:
            return entry.used if windows == 0 else 0
        if entry.kind == PAIR:
            overlap = Fraction(window_us - now_us % window_us, window_us)
            current = entry.current if windows == 0 else 0
            previous = entry.previous if windows == 0 else entry.current if windows == 1 else 0
            return current + previous * overlap
        groups = entry.groups if entry.kind in (GROUPS, WIDE_GROUPS) else self.hits
        return sum(count for at_us, count in groups if at_us + window_us > now_us)

    def _level(self, entry: Entry, now_us: int) -> Fraction:
        unit, rate = self.script_limit.unit_and_rate
        units = min(round(entry.level * unit), self.limit.capacity * unit)
        return Fraction(max(0, units - (now_us - entry.at_us) * rate), unit)

    def add(self, charge: Charge) -> None:
        raise NotImplementedError("a record is only read here")

    def take_back(self, charge: Charge, amount: int, now_us: int) -> int:
        raise NotImplementedError("a record is only read here")
