"""Rules that never win: whatever they match, another rule matches too and is always stronger.

What is told here is true of every request. It is not all that is true: several rules that only together leave nothing
to another are seen where each takes over whole cases of it, and not where they share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from headgate.doctor.judge.matching import EXACT, Case, Rank, Shape, cases, patterns, texts

LOOKUPS_MAX = 1_000_000
DEFAULT_PRIORITY = 100
# Above every priority a rule may have.
_OPERATOR_PRIORITY = 2**31 - 1
# Shapes of patterns that one path is looked up in for certain; past them the least specific may be left out.
_SHAPES_MAX = 31
# Of rules that match the very same, the strongest and one beside it: no rule is compared with itself.
_KEPT = 2
_ALONE = ("block", "allow")
_PRINCIPALS = ("user", "org", "api_key")

Rule = Mapping[str, Any]
# Whether in shadow, and the set of facts that is counted by, of which whole descriptors have none; one of its own for
# rules that decide alone.
Competition = tuple[bool, tuple[str, ...] | None] | None


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A rule that never wins, those that win instead, and whether all of them decide before any limit is looked at."""

    name: str
    winners: tuple[str, ...]
    is_decided_first: bool


@dataclass(frozen=True, slots=True)
class Found:
    never_win: tuple[Shadowed, ...]
    # How many of how many rules were looked at before the bound was met.
    looked_at: int
    rules: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """One case of a rule, and how strong it is among those it competes with."""

    rule: str
    case: Case
    strength: tuple[int, bool, Rank]

    def beats(self, other: _Entry) -> bool:
        if self.strength != other.strength:
            return self.strength > other.strength
        return self.rule < other.rule


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    competition: Competition
    # A block that ends leaves the field to others, and so does a rule that another replaces in some calls.
    is_lasting: bool
    entries: tuple[_Entry, ...]


class _Field:
    """The entries of one competition, by what they match."""

    def __init__(self) -> None:
        self._entries: dict[Shape, dict[Case, list[_Entry]]] = {}

    def add(self, entry: _Entry) -> None:
        same = self._entries.setdefault(entry.case.shape, {}).setdefault(entry.case, [])
        if any(known.rule == entry.rule for known in same):
            return
        same.append(entry)
        same.sort(key=lambda known: known.rule)
        same.sort(key=lambda known: known.strength, reverse=True)
        del same[_KEPT:]

    def covering(self, case: Case, any_pattern: bool) -> Iterator[_Entry | None]:
        """Entries that match whatever this case matches; None for a look-up that found none. Without `any_pattern`
        only the same pattern is taken to cover one."""
        own = case.shape
        for shape, entries in self._entries.items():
            wider = case.widened(shape) if any_pattern or shape.endpoint in (None, own.endpoint) else None
            yield from entries.get(wider, ()) if wider is not None else ()
            yield None


class _Search:
    def __init__(self, rules: list[_Rule], any_pattern: bool) -> None:
        self._any_pattern = any_pattern
        self._fields: dict[Competition, _Field] = {}
        self.lookups = 0
        for rule in rules:
            field = self._fields.setdefault(rule.competition, _Field())
            for entry in rule.entries if rule.is_lasting else ():
                field.add(entry)

    def judge(self, rule: _Rule) -> Shadowed | None:
        first = True
        winners: dict[str, None] = {}
        for entry in rule.entries:
            winner = None
            if rule.competition is not None:
                winner = self._winner(entry, self._fields.get(None), is_rival=False)
            if winner is None:
                first = False
                winner = self._winner(entry, self._fields[rule.competition], is_rival=True)
            if winner is None:
                return None
            winners[winner] = None
        return Shadowed(rule.name, tuple(winners), first)

    def _winner(self, entry: _Entry, field: _Field | None, *, is_rival: bool) -> str | None:
        """A rule that matches whatever this case matches; a rival must be stronger as well."""
        if field is None:
            return None
        for other in field.covering(entry.case, self._any_pattern):
            if other is None:
                self.lookups += 1
            elif other.rule != entry.rule and (not is_rival or other.beats(entry)):
                return other.rule
        return None


def find_never_winning(rules: Iterable[Rule], overrides: Iterable[Rule] = ()) -> Found:
    """`rules` and `overrides` are those of a document without mistakes."""
    every = [rule for rule in rules if rule.get("enabled", True)]
    every += [rule for override in overrides for rule in _of_override(override)]
    replaced = {name for rule in every for name in texts(rule.get("replaces", []))}
    known = [read for rule in every if (read := _read(rule, replaced)) is not None]
    search = _Search(known, _has_few_shapes(every))
    found: list[Shadowed] = []
    for nth, rule in enumerate(known):
        if search.lookups > LOOKUPS_MAX:
            return Found(tuple(found), nth, len(known))
        shadowed = search.judge(rule)
        if shadowed is not None:
            found.append(shadowed)
    return Found(tuple(found), len(known), len(known))


def _read(rule: Rule, replaced: Set[str]) -> _Rule | None:
    match = rule.get("match") or {}
    found = cases(match)
    if found is None:
        return None
    action = rule.get("action", "throttle")
    is_alone = action in _ALONE
    priority = rule.get("priority", DEFAULT_PRIORITY)
    # Among those that decide alone, a block goes before an allow of the same priority.
    entries = tuple(_Entry(rule["name"], case, (priority, action == "block", case.rank)) for case in found)
    competition = None if is_alone else (action == "shadow", None if EXACT in match else by_of(rule))
    return _Rule(rule["name"], competition, "until" not in rule and rule["name"] not in replaced, entries)


def by_of(rule: Rule) -> tuple[str, ...]:
    return tuple(sorted(set(texts(rule.get("by", "global"))) - {"global"}))


def _of_override(override: Rule) -> Iterator[Rule]:
    """The rules an override stands for."""
    kind = next(name for name in _PRINCIPALS if name in override)
    value = str(override[kind])
    match = {kind: value}
    if "limit" in override:
        yield {"name": f"override:{kind}:{value}", "match": match, "by": kind}
    if "block" in override:
        block = override["block"]
        until = {"until": block["until"]} if isinstance(block, Mapping) and "until" in block else {}
        name = f"override-block:{kind}:{value}"
        yield {"name": name, "match": match, "action": "block", "priority": _OPERATOR_PRIORITY, **until}


def _has_few_shapes(every: list[Rule]) -> bool:
    """Of a path that meets very many patterns the engine looks at the most specific: then nothing is sure."""
    found = (pattern for rule in every for pattern in patterns(rule.get("match") or {}))
    return len({pattern.shape for pattern in found if not pattern.is_exact}) <= _SHAPES_MAX
