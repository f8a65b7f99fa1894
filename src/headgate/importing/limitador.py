"""Limitador's file of limits as rules.

There, every limit whose conditions hold applies. Here, rules that count by the same facts compete and one wins. So each
limit gets a `by` of its own where it can: a fact that a condition fixes may be added to `by` without counting anything
differently, since it has one value only. Where two limits still count by the same facts and may hold together, there is
a rule for both at once too, with the limits of both, sharing their counters.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate.importing.imported import Imported, Level, Note
from headgate.importing.limitador_reading import Limit, read_limits
from headgate.importing.source import read_source
from headgate.importing.wording import DEFAULT_PRIORITY, LIMITS_MAX, Names, fitting, limit_text

# All rules of a document may count by so many sets of facts.
BY_MAX = 256
# Of one `by`: past this, limits that may hold together compete, and it is said.
COMBINED_MAX = 256

_DIMENSIONS = ("user", "api_key", "org", "ip", "endpoint", "method", "region", "tier")
_WINDOWS = (
    "a window begins there with a counter's first hit, and here on the clock, at whole multiples of its length: as "
    "many are admitted in a window, and across the end of one up to twice as many, there as here"
)
_APART = (
    "what a condition fixes is counted by as well, so that limits apply beside each other as they do there; it has one "
    "value only, so nothing is counted differently"
)
_DESCRIPTORS = (
    "`descriptors[0]` is the first description of a request there; here a rule looks at each of them on its own, so "
    "one further back that has the same entries is counted as well"
)
_TOGETHER = (
    "a limit that names entries without `descriptors[…]` finds them there in all descriptors of a call together; here "
    "a rule looks at each on its own, so what a limit tests and counts by has to come in one descriptor"
)

Facts = frozenset[tuple[str, str]]
By = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Family:
    """Limits of one namespace that count by the same facts: they compete here unless something is done about it."""

    namespace: str
    by: By
    limits: tuple[Limit, ...]


def read_limitador(paths: Sequence[str | os.PathLike[str]]) -> Imported:
    """Raises FileError, naming every mistake, if a file is not what Limitador would read."""
    limits: list[Limit] = []
    notes: list[Note] = []
    for path in paths:
        source = read_source(path)
        limits += read_limits(source)
        source.finish()
        notes += source.notes
    limits = _once(limits, notes)
    rules, families = [_block(limit, notes) for limit in limits if limit.count == 0], _families(limits, notes)
    names = Names()
    for rule in rules:
        rule["name"] = names.take(rule["name"])
    for family in families:
        rules += _rules(family, names, notes)
    where = os.fspath(paths[0]) if paths else ""
    if any(family.by != limit.variables for family in families for limit in family.limits):
        notes.append(Note("note", where, _APART))
    if any(limit.nth is not None for limit in limits):
        notes.append(Note("differs", where, _DESCRIPTORS))
    if families:
        notes.append(Note("differs", where, _WINDOWS))
    if any(limit.nth is None and len(limit.facts) + len(limit.variables) > 1 for limit in limits):
        notes.append(Note("differs", where, _TOGETHER))
    return Imported({"rules": rules}, tuple(dict.fromkeys(notes)))


def _once(limits: list[Limit], notes: list[Note]) -> list[Limit]:
    """Limits that count the same share one counter there, and the smaller is all that a client meets."""
    kept: dict[object, Limit] = {}
    for limit in limits:
        same = (limit.namespace, limit.window_s, limit.facts, limit.variables)
        other = kept.setdefault(same, limit)
        if other is limit:
            continue
        level: Level = "note" if other.count == limit.count else "differs"
        notes.append(Note(level, limit.where, f"counts what {other.where} counts; the smaller of the two was kept"))
        if limit.count < other.count:
            kept[same] = limit
    return list(kept.values())


def _block(limit: Limit, notes: list[Note]) -> dict[str, Any]:
    if limit.variables:
        what = f"`max_value: 0` blocks every request its conditions hold for, also without {_listed(limit.variables)}"
        notes.append(Note("differs", limit.where, what))
    return {
        "name": _name(limit.namespace, limit.facts) if limit.name is None else f"{limit.namespace}/{limit.name}",
        **_match(limit.namespace, limit.facts),
        "action": "block",
        "response": {"status": 429},
    }


def _families(limits: list[Limit], notes: list[Note]) -> list[_Family]:
    counted = [limit for limit in limits if limit.count > 0]
    # Where all who count by the same variables test the same keys, they are equal or exclude each other.
    tested: dict[tuple[str, By], set[By]] = defaultdict(set)
    for limit in counted:
        tested[limit.namespace, limit.variables].add(_keys(limit.facts))
    grouped: dict[tuple[str, By], list[Limit]] = defaultdict(list)
    bys: set[By] = set()
    for limit in counted:
        apart = len(tested[limit.namespace, limit.variables]) > 1
        by = limit.variables | _keys(limit.facts) if apart else limit.variables
        if by not in bys and len(bys) == BY_MAX:
            what = f"rules count by at most {BY_MAX} different sets of facts; divide the namespaces between nodes"
            notes.append(Note("cannot", limit.where, what))
            continue
        bys.add(by)
        grouped[limit.namespace, by].append(limit)
    return [_Family(namespace, by, tuple(members)) for (namespace, by), members in grouped.items()]


def _rules(family: _Family, names: Names, notes: list[Note]) -> list[dict[str, Any]]:
    own: dict[Facts, list[Limit]] = defaultdict(list)
    for limit in family.limits:
        own[limit.facts].append(limit)
    if len({_keys(facts) for facts in own}) == 1:
        return [_rule(family, facts, limits, names, notes) for facts, limits in own.items()]
    combined = _combined(list(own))
    if combined is None:
        what = (
            f"limits that count by {_listed(family.by)} may hold together in more than {COMBINED_MAX} ways; "
            "where several do, only the one with the most conditions applies"
        )
        notes.append(Note("differs", family.limits[0].where, what))
    # One counter name for all, and a label a limit: a limit is one counter in whichever rule it stands.
    counter = names.take(f"{family.namespace}/by {_listed(family.by)}")
    made = []
    for facts in own if combined is None else combined:
        held = own[facts] if combined is None else [limit for limit in family.limits if limit.facts <= facts]
        rule = _rule(family, facts, held, names, notes, shared=True)
        made.append({**rule, "priority": DEFAULT_PRIORITY + len(facts), "counter": counter})
    return made


def _combined(conditions: list[Facts]) -> list[Facts] | None:
    """Everything that some of these conditions say together, themselves included, without what contradicts itself. The
    largest that holds for a request then says exactly which limits hold for it. None if there is too much."""
    found = dict.fromkeys(conditions)
    if len(found) > COMBINED_MAX:
        return None
    for one in conditions:
        for other in list(found):
            both = one | other
            if len(_keys(both)) == len(both):
                found[both] = None
        if len(found) > COMBINED_MAX:
            return None
    return list(found)


def _rule(
    family: _Family, facts: Facts, limits: list[Limit], names: Names, notes: list[Note], *, shared: bool = False
) -> dict[str, Any]:
    what = f"a rule has at most {LIMITS_MAX} limits, and so many hold here already"
    notes += [Note("cannot", limit.where, what) for limit in limits[LIMITS_MAX:]]
    kept = limits[:LIMITS_MAX]
    only = kept[0].name if len(kept) == 1 else None
    name = _name(family.namespace, facts, family.by) if only is None else f"{family.namespace}/{only}"
    return {
        "name": names.take(name),
        **_match(family.namespace, facts),
        "by": _by(family.by),
        "algorithm": "fixed_window",
        "limit": _limits(kept, shared=shared),
    }


def _limits(limits: list[Limit], *, shared: bool) -> str | list[dict[str, str]]:
    texts = [limit_text(limit.count, limit.window_s) for limit in limits]
    if len(texts) == 1 and not shared:
        return texts[0]
    labels = [fitting(f"{limit.window_s}s {_said(limit.facts) if shared else ''}") for limit in limits]
    return [{"limit": text, "label": label} for text, label in zip(texts, labels, strict=True)]


def _match(namespace: str, facts: Facts) -> dict[str, Any]:
    dimensions = {key: value for key, value in sorted(facts) if key in _DIMENSIONS}
    descriptors = {key: value for key, value in sorted(facts) if key not in _DIMENSIONS}
    return {"match": {**dimensions, "descriptors": {"domain": namespace, **descriptors}}}


def _by(by: By) -> str | list[str]:
    ordered = sorted(by, key=lambda name: (_DIMENSIONS.index(name) if name in _DIMENSIONS else len(_DIMENSIONS), name))
    return "global" if not ordered else ordered[0] if len(ordered) == 1 else ordered


def _keys(facts: Facts) -> By:
    return frozenset(key for key, _ in facts)


def _name(namespace: str, facts: Facts, by: By = frozenset()) -> str:
    said = _said(facts)
    told = f"{namespace}/{said}" if said else namespace
    return f"{told} by {_listed(by - _keys(facts))}" if by - _keys(facts) else told


def _said(facts: Facts) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(facts))


def _listed(names: By) -> str:
    return ", ".join(sorted(names)) or "nothing"
