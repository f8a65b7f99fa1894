"""What the scripts must decide and leave behind, to the last bit: the engine's algorithms over decoded records.

Slow and plain where the scripts are clever: hits lie in their entry, sums are added up anew, and products of any size
are exact. Times a counter has recorded are past, whatever the clock says.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor

from tests.scripts.calls import Charge, Request, ScriptLimit
from tests.scripts.record import BUCKET, COUNT_MAX, GROUPS, HITS, PAIR, WINDOW, Entry, Record

PAIR_COUNT_MAX = 2**32 - 1
GROUPS_MAX = 65
REFUNDS_MODULUS = 4_096
EXPIRES_MS_MAX = 2**48 - 1


def units_at(limit: ScriptLimit, level: float, at_us: int, now_us: int) -> float:
    unit, rate = map(float, limit.unit_and_rate)
    filled = min(float(round(level * unit)), float(limit.limit.capacity) * unit)
    return max(0.0, filled - float(max(0, now_us - at_us)) * rate)


def alive(limit: ScriptLimit, entry: Entry, now_us: int) -> tuple[tuple[int, int], ...]:
    return tuple(group for group in entry.groups if group[0] + limit.limit.window_us > now_us)


def held(groups: tuple[tuple[int, int], ...]) -> int:
    return sum(count for _, count in groups)


def usage(limit: ScriptLimit, entry: Entry, now_us: int) -> int:
    """What another algorithm takes over."""
    match entry.kind:
        case 1:
            return ceil(entry.level)
        case 3:
            return entry.current + entry.previous
        case 4:
            return held(alive(limit, entry, now_us))
        case 6:
            return min(held(entry.groups), COUNT_MAX)
    return entry.used


def adopt(limit: ScriptLimit, entry: Entry | None, now_us: int) -> Entry | None:
    if entry is None or entry.kind == limit.kind:
        return entry
    used = min(usage(limit, entry, now_us), limit.limit.capacity)
    if used == 0:
        return None
    adopted = Entry(limit.id, limit.kind, limit.life, entry.at_us)
    match limit.kind:
        case 1:
            return replace(adopted, level=float(used))
        case 2:
            return replace(adopted, used=used)
        case 3:
            return replace(adopted, current=min(used, PAIR_COUNT_MAX))
    return replace(adopted, groups=((entry.at_us, used),))


def pair_seen(limit: ScriptLimit, entry: Entry, now_us: int) -> tuple[int, int]:
    window_us = limit.limit.window_us
    passed = now_us // window_us - entry.at_us // window_us
    if passed == 0:
        return entry.current, entry.previous
    return 0, entry.current if passed == 1 else 0


def window_used(limit: ScriptLimit, entry: Entry, now_us: int) -> int:
    window_us = limit.limit.window_us
    return entry.used if now_us // window_us == entry.at_us // window_us else 0


def fits(limit: ScriptLimit, entry: Entry | None, cost: int, now_us: int) -> bool:
    capacity, window_us = limit.limit.capacity, limit.limit.window_us
    if cost > capacity:
        return False
    entry = adopt(limit, entry, now_us)
    if entry is None:
        return True
    now_us = max(now_us, entry.at_us)
    match limit.kind:
        case 1:
            room = float(capacity - cost) * float(limit.unit_and_rate[0])
            return units_at(limit, entry.level, entry.at_us, now_us) - room <= 0
        case 2:
            return window_used(limit, entry, now_us) + cost <= capacity
        case 3:
            current, previous = pair_seen(limit, entry, now_us)
            weighted = previous * (window_us - now_us % window_us)
            return weighted + (current + cost) * window_us <= capacity * window_us
    return held(alive(limit, entry, now_us)) + cost <= capacity


def spend(limit: ScriptLimit, before: Entry | None, cost: int, now_us: int) -> Entry:
    entry = adopt(limit, before, now_us)
    if entry is None:
        refunds = now_us % REFUNDS_MODULUS if limit.kind == BUCKET else 0
        entry = Entry(limit.id, limit.kind, limit.life, now_us, refunds=refunds)
    now_us = max(now_us, entry.at_us)
    spent = replace(entry, life=limit.life, at_us=now_us)
    match limit.kind:
        case 1:
            unit = float(limit.unit_and_rate[0])
            units = units_at(limit, entry.level, entry.at_us, now_us) + float(cost) * unit
            return replace(spent, level=min(units, float(limit.limit.capacity) * unit) / unit)
        case 2:
            return replace(spent, used=window_used(limit, entry, now_us) + cost)
        case 3:
            current, previous = pair_seen(limit, entry, now_us)
            return replace(spent, current=min(current + cost, PAIR_COUNT_MAX), previous=previous)
    foreign = before is not None and before.kind != limit.kind
    return replace(spent, groups=_spend_groups(limit, alive(limit, entry, now_us), cost, now_us, foreign))


def _spend_groups(
    limit: ScriptLimit, groups: tuple[tuple[int, int], ...], cost: int, now_us: int, foreign: bool
) -> tuple[tuple[int, int], ...]:
    if not groups:
        return ((now_us, cost),)
    last_us, count = groups[-1]
    if limit.kind == HITS:
        joins = last_us == now_us
    else:
        joins = len(groups) >= GROUPS_MAX or count + cost <= limit.limit.group_size
    if joins or foreign:
        return (*groups[:-1], (now_us, min(count + cost, COUNT_MAX)))
    return (*groups, (now_us, cost))


def refund(
    limit: ScriptLimit, entry: Entry | None, charge: Charge, amount: int, now_us: int
) -> tuple[int, Entry | None]:
    """What was returned, and the changed entry, or none when nothing changed."""
    amount = min(amount, charge.cost)
    if entry is None or entry.kind != limit.kind:
        return 0, None
    now_us = max(now_us, entry.at_us)
    window_us = limit.limit.window_us
    changed = replace(entry, life=limit.life)
    match limit.kind:
        case 1:
            return _refund_bucket(limit, changed, charge, amount, now_us)
        case 2:
            same = now_us // window_us == charge.at_us // window_us
            returned = min(amount, window_used(limit, entry, now_us)) if same else 0
            return returned, replace(changed, used=entry.used - returned) if returned else None
        case 3:
            return _refund_pair(limit, changed, charge, amount, now_us)
    if charge.at_us + window_us <= now_us:
        return 0, None
    return _refund_groups(changed, charge, amount)


def _refund_bucket(
    limit: ScriptLimit, entry: Entry, charge: Charge, amount: int, now_us: int
) -> tuple[int, Entry | None]:
    unit = limit.unit_and_rate[0]
    before = charge.used_after if entry.refunds == charge.refunds else float(charge.cost)
    weight = min(units_at(limit, before, charge.at_us, now_us), float(charge.cost) * unit)
    returned = min(weight, float(amount) * unit)
    if returned <= 0:
        return 0, None
    level = max(0.0, units_at(limit, entry.level, entry.at_us, now_us) - returned) / unit
    whole = int(returned) // unit if returned < 9e15 else floor(returned / unit)
    return whole, replace(entry, level=level, at_us=now_us, refunds=(entry.refunds + 1) % REFUNDS_MODULUS)


def _refund_pair(
    limit: ScriptLimit, entry: Entry, charge: Charge, amount: int, now_us: int
) -> tuple[int, Entry | None]:
    window_us = limit.limit.window_us
    charged = charge.at_us // window_us
    if now_us // window_us > charged + 1:
        return 0, None
    passed = entry.at_us // window_us - charged
    if passed == 0 and (returned := min(amount, entry.current)):
        return returned, replace(entry, current=entry.current - returned)
    if passed == 1 and (returned := min(amount, entry.previous)):
        return returned, replace(entry, previous=entry.previous - returned)
    return 0, None


def _refund_groups(entry: Entry, charge: Charge, amount: int) -> tuple[int, Entry | None]:
    groups = list(entry.groups)
    index = next((nth for nth, (at_us, _) in enumerate(groups) if at_us >= charge.at_us), None)
    if index is None:
        return 0, None
    there = 0
    for at_us, count in groups[index:]:
        there += count
        if at_us > charge.at_us:
            break
    returned = left = min(amount, there)
    if returned == 0:
        return 0, None
    for nth in range(index, len(groups)):
        taken = min(left, groups[nth][1])
        groups[nth] = (groups[nth][0], groups[nth][1] - taken)
        left -= taken
    kept = tuple(group for group in groups if group[1] > 0)
    return returned, replace(entry, groups=kept, at_us=kept[-1][0] if kept else 0)


def expires_us(limit: ScriptLimit, entry: Entry) -> int:
    """When nothing of the entry is in use any more; 0 when nothing is."""
    window_us = limit.limit.window_us
    end_us = (entry.at_us // window_us + 1) * window_us
    match entry.kind:
        case 1:
            units = units_at(limit, entry.level, entry.at_us, entry.at_us)
            return entry.at_us + ceil(units / limit.unit_and_rate[1]) if units else 0
        case 2:
            return end_us if entry.used else 0
        case 3:
            return end_us + window_us if entry.current else end_us if entry.previous else 0
    return entry.at_us + window_us if held(entry.groups) else 0


class Reference:
    """Every record, as the scripts should have left it."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self._touched: dict[str, dict[int, int]] = {}

    def entry(self, key: str, limit_id: int) -> Entry | None:
        record = self.records.get(key)
        return record.entry(limit_id) if record is not None else None

    def check(self, now_us: int, *requests: Request) -> tuple[list[bool], list[Charge]]:
        charges: list[Charge] = []
        allowed = [self._decide(request, now_us, charges) for request in requests]
        self._write(now_us)
        return allowed, charges

    def _decide(self, request: Request, now_us: int, charges: list[Charge]) -> bool:
        cost, asks = request.cost, request.asks
        fit = [fits(ask.limit, self.entry(ask.key, ask.limit.id), cost, now_us) for ask in asks]
        allowed = request.forced or all(fit[nth] or ask.shadow for nth, ask in enumerate(asks))
        if not allowed or cost == 0:
            return allowed
        spent: set[tuple[str, int]] = set()
        for ask, does_fit in zip(asks, fit, strict=True):
            place = (ask.key, ask.limit.id)
            if (does_fit or request.forced) and not (ask.shadow and place in spent):
                entry = spend(ask.limit, self.entry(*place), cost, now_us)
                self._put(ask.key, ask.limit, entry)
                charges.append(Charge(ask, entry.at_us, cost, entry.level, entry.refunds))
                spent.add(place)
        return allowed

    def refund(self, now_us: int, *charges: tuple[Charge, int]) -> list[int]:
        returned, changed = [], []
        for charge, amount in charges:
            key, limit = charge.ask.key, charge.ask.limit
            before = self.entry(key, limit.id)
            if before is not None and not expires_us(limit, before):
                before = None  # All of it was returned by a charge before this one.
            given, entry = refund(limit, before, charge, amount, now_us)
            if entry is not None:
                self._put(key, limit, entry)
                changed.append((key, limit))
            returned.append(given)
        # A later refund may have left less than an earlier one: only what is left in the end counts.
        self._touched = {}
        for key, limit in changed:
            entry = self.entry(key, limit.id)
            assert entry is not None
            self._touch(key, limit, entry)
        self._write(now_us)
        return returned

    def reset(self, now_us: int, *places: tuple[str, int]) -> int:
        count = 0
        for key, limit_id in places:
            if (record := self.records.get(key)) and record.entry(limit_id):
                kept = tuple(entry for entry in record.entries if entry.id != limit_id)
                self.records[key] = replace(record, entries=kept)
                self._touched.setdefault(key, {})
                count += 1
        self._write(now_us)
        return count

    def _put(self, key: str, limit: ScriptLimit, entry: Entry) -> None:
        record = self.records.get(key, Record(0))
        if record.entry(limit.id) is None:
            entries = (*record.entries, entry)
        else:
            entries = tuple(entry if old.id == limit.id else old for old in record.entries)
        self.records[key] = replace(record, entries=entries)
        self._touch(key, limit, entry)

    def _touch(self, key: str, limit: ScriptLimit, entry: Entry) -> None:
        """Two forms of a limit may meet in one call: what either needs is kept."""
        touched = self._touched.setdefault(key, {})
        touched[limit.id] = max(touched.get(limit.id, 0), expires_us(limit, entry))

    def _write(self, now_us: int) -> None:
        for key, touched in self._touched.items():
            record = self.records[key]
            kept, expires_ms = [], 0
            for entry in record.entries:
                ends_us = touched.get(entry.id)
                if ends_us is None:
                    if entry.at_us + 2 ** (entry.life / 4) * 1_000 > now_us:
                        kept.append(entry)
                        expires_ms = max(expires_ms, record.expires_ms)
                elif ends_us > now_us:
                    kept.append(entry)
                    expires_ms = max(expires_ms, -(-ends_us // 1_000))
            self.records[key] = Record(min(expires_ms, EXPIRES_MS_MAX), tuple(kept))
            if not kept:
                del self.records[key]
        self._touched = {}


def comparable(entry: Entry, log: list[tuple[int, int]]) -> Entry:
    """A stored entry as the reference has it: its living hits in it, groups of either width alike."""
    if entry.kind == HITS:
        hits = tuple(log[entry.head : entry.hits])
        assert entry.used == min(held(hits), COUNT_MAX)
        assert entry.hits == len(log)
        return replace(entry, used=0, head=0, hits=0, groups=hits)
    if entry.kind in (WINDOW, PAIR, BUCKET):
        return entry
    assert entry.used == min(held(entry.groups), COUNT_MAX)
    return replace(entry, kind=GROUPS, used=0)
