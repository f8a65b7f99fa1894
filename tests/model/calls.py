"""A slow, plain account of what a call is answered: SEMANTICS 7 over the models of rules and algorithms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tests.grpc.client import Status
from tests.model.algorithms import Counter, counter
from tests.model.limits import MINUTE_US, SECOND_US, Limit
from tests.model.rules import Request, RuleDoc, by_of, select

NO_TIER = "\0none"
"""A tier no rule names: here nothing is `free` unless it says so."""

UNIT_NAMES = {SECOND_US: "SECOND", MINUTE_US: "MINUTE", 60 * MINUTE_US: "HOUR", 1_440 * MINUTE_US: "DAY"}

Key = tuple[object, ...]
"""What is counted: a limit of a rule and a subject, or the domain and entries of a descriptor with its own limit."""

Ask = tuple[Key, str, Limit]
"""A counter, the rule that asks it (none for a descriptor's own limit), and for what."""


@dataclass(frozen=True)
class Described:
    """One descriptor, as the model takes it."""

    request: Request
    hits: int
    own: tuple[Key, Limit] | None = None


@dataclass(frozen=True)
class Met:
    """What applies to one descriptor."""

    decided: str | None = None
    enforced: Sequence[Ask] = ()
    shadows: Sequence[Ask] = ()


class Model:
    """Rules with their limits, and a counter for everything that was ever met."""

    def __init__(self, rules: Sequence[RuleDoc], limits: Mapping[str, Sequence[Limit]]) -> None:
        self.rules = {str(rule["name"]): rule for rule in rules}
        self.limits = limits
        self.counters: dict[Key, Counter] = {}

    def ask(self, described: Sequence[Described], now_us: int) -> tuple[str, list[list[Status]]]:
        """The overall code, and of each descriptor every status that would be right: limits can be equally tight."""
        met = [self._met(one) for one in described]
        blocked = [one.decided == "block" for one in met]
        if any(blocked):
            return "OVER_LIMIT", [[Status("OVER_LIMIT" if is_blocked else "OK")] for is_blocked in blocked]
        costs: dict[Key, int] = {}
        for one, found in zip(described, met, strict=True):
            for key, _, _ in (*found.enforced, *found.shadows):
                costs[key] = max(costs.get(key, 0), one.hits)
        enforced = {ask for found in met for ask in found.enforced}
        shadows = {ask for found in met for ask in found.shadows}
        waits = {ask: self._as(ask).wait_us(costs[ask[0]], now_us) for ask in enforced | shadows}
        passes = all(waits[ask] == 0 for ask in enforced)
        if passes:
            for key in {ask[0] for ask in enforced | shadows if waits[ask] == 0 and costs[ask[0]] > 0}:
                self.counters[key].spend(costs[key], now_us)
        statuses = [self._statuses(found.enforced, waits, now_us) for found in met]
        return "OK" if passes else "OVER_LIMIT", statuses

    def _met(self, one: Described) -> Met:
        selection = select(list(self.rules.values()), [], one.request)
        if selection.decided_by:
            return Met(selection.action)
        if one.own is not None:
            return Met(enforced=[self._known((one.own[0], "", one.own[1]))])
        asks: list[list[Ask]] = []
        for names in (selection.limits, selection.shadows):
            applying = [name for name in sorted(names) if _is_supplied(self.rules[name], one.request)]
            asks.append(
                [
                    self._known(((name, selection.subjects[name], nth), name, limit))
                    for name in applying
                    for nth, limit in enumerate(self.limits[name])
                ]
            )
        return Met(None, *asks)

    def _known(self, ask: Ask) -> Ask:
        self.counters.setdefault(ask[0], counter(ask[2]))
        return ask

    def _as(self, ask: Ask) -> Counter:
        """The counter, looked at by one of the limits that ask it."""
        found = self.counters[ask[0]]
        found.limit = ask[2]
        return found

    def _statuses(self, enforced: Sequence[Ask], waits: dict[Ask, int | None], now_us: int) -> list[Status]:
        if not enforced:
            return [Status("OK")]
        refused = [ask for ask in enforced if waits[ask] != 0]
        if refused:
            longest = max(_never_last(waits[ask]) for ask in refused)
            bound = [ask for ask in refused if _never_last(waits[ask]) == longest]
        else:
            least = min(self._share_left(ask, now_us) for ask in enforced)
            bound = [ask for ask in enforced if self._share_left(ask, now_us) == least]
        return [self._status(ask, "OVER_LIMIT" if refused else "OK", now_us) for ask in bound]

    def _status(self, ask: Ask, code: str, now_us: int) -> Status:
        bound = self._as(ask)
        return Status(
            code,
            ask[1],
            bound.limit.count,
            UNIT_NAMES.get(bound.limit.window_us, "UNKNOWN"),
            bound.remaining(now_us),
            bound.reset_after_us(now_us) / SECOND_US,
        )

    def _share_left(self, ask: Ask, now_us: int) -> Fraction:
        bound = self._as(ask)
        return Fraction(bound.remaining(now_us), bound.limit.capacity)


def _is_supplied(rule: RuleDoc, request: Request) -> bool:
    """Whether the descriptor has what would otherwise be stood in for: a user, an API key, a tier."""
    counted = by_of(rule)
    return (
        ("user" not in counted or request.user is not None)
        and ("api_key" not in counted or request.api_key is not None)
        and ("tier" not in counted or request.tier != NO_TIER)
    )


def _never_last(wait_us: int | None) -> float:
    return float("inf") if wait_us is None else wait_us
