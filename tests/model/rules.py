"""Which rules apply to a request: a plain scan over rule documents (SEMANTICS 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from tests.model.paths import Pattern, normalise

RuleDoc = Mapping[str, Any]
By = tuple[str, ...]

FACTS = ("user", "api_key", "org", "ip", "endpoint", "method", "region", "tier")
"""What a `by` may name; anything else is a descriptor."""


@dataclass(frozen=True)
class Request:
    user: str | None = None
    api_key: str | None = None
    org: str | None = None
    ip: str | None = None
    tier: str | None = None
    method: str | None = None
    path: str | None = None
    region: str | None = None
    descriptors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """What the scan found. Either one rule decides alone, or limits apply."""

    tier: str
    endpoint: str | None
    decided_by: str | None = None
    action: str | None = None
    limits: frozenset[str] = frozenset()
    shadows: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    """Winners that lack a fact they count by; nobody else with that `by` could apply either."""
    subjects: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Of each rule that applies: what it counts, fact by fact, in the order of its names."""


def override_rules(override: RuleDoc) -> list[RuleDoc]:
    """The rules an override stands for: its own limits, counted by whom it is for, and its block."""
    kind = next(name for name in ("user", "org", "api_key") if name in override)
    value = str(override[kind])
    rules: list[RuleDoc] = []
    if "limit" in override:
        rules.append({"name": f"override:{kind}:{value}", "match": {kind: value}, "by": kind})
    if "block" in override:
        rules.append({"name": f"override-block:{kind}:{value}", "match": {kind: value}, "action": "block"})
    return rules


def by_of(rule: RuleDoc) -> By:
    declared = rule.get("by", "global")
    names = [declared] if isinstance(declared, str) else list(declared)
    return tuple(sorted(set(names) - {"global"}))


def select(rules: Iterable[RuleDoc], overrides: Sequence[RuleDoc], request: Request) -> Selection:
    every = [rule for rule in rules if rule.get("enabled", True)]
    for override in overrides:
        every.extend(override_rules(override))
    facts = _facts(every, overrides, request)
    found = [(rule, rank) for rule in every if (rank := _rank(rule, facts, request)) is not None]
    plain = Selection(tier=facts["tier"] or "", endpoint=facts["endpoint"])

    alone = [(rule, rank) for rule, rank in found if rule.get("action") in ("block", "allow")]
    if alone:
        first = min(alone, key=lambda pair: _order_alone(*pair))[0]
        return Selection(plain.tier, plain.endpoint, first["name"], first["action"])

    chosen: dict[bool, set[str]] = {False: set(), True: set()}
    skipped, subjects = set(), {}
    for is_shadow in (False, True):
        competitions: dict[By, list[tuple[RuleDoc, tuple[int, ...]]]] = {}
        for rule, rank in found:
            action = rule.get("action", "throttle")
            if action not in ("block", "allow") and (action == "shadow") == is_shadow:
                competitions.setdefault(by_of(rule), []).append((rule, rank))
        for by, competitors in competitions.items():
            winner = min(competitors, key=lambda pair: _order(*pair))[0]
            subject = _subject(by, facts, request)
            if subject is None:
                skipped.add(winner["name"])
            else:
                chosen[is_shadow].add(winner["name"])
                subjects[winner["name"]] = subject
    return Selection(
        plain.tier,
        plain.endpoint,
        limits=frozenset(chosen[False]),
        shadows=frozenset(chosen[True]),
        skipped=frozenset(skipped),
        subjects=subjects,
    )


def _facts(every: list[RuleDoc], overrides: Sequence[RuleDoc], request: Request) -> dict[str, str | None]:
    endpoint = None
    if request.path is not None:
        endpoint = path = normalise(request.path)
        met = [pattern for rule in every for pattern in _patterns(rule) if pattern.matches(path)]
        if met:
            endpoint = min(met, key=lambda p: (tuple(-n for n in p.specificity), p.text)).text
    return {
        "user": request.user,
        "api_key": request.api_key,
        "org": request.org,
        "ip": request.ip,
        "endpoint": endpoint,
        "method": None if request.method is None else request.method.upper(),
        "region": request.region,
        "tier": _tier(overrides, request),
    }


def _tier(overrides: Sequence[RuleDoc], request: Request) -> str:
    """SEMANTICS 1.7."""
    for kind, value in (("user", request.user), ("api_key", request.api_key)):
        for override in overrides:
            if value is not None and str(override.get(kind)) == value and "tier" in override:
                return str(override["tier"])
    return request.tier or "free"


def _patterns(rule: RuleDoc) -> list[Pattern]:
    return [Pattern(text) for text in _listed(rule.get("match", {}).get("endpoint"))]


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _rank(rule: RuleDoc, facts: Mapping[str, str | None], request: Request) -> tuple[int, ...] | None:
    """How specifically a rule matches (SEMANTICS 1.4), or None when it does not."""
    match = rule.get("match", {})
    for name in ("user", "api_key", "org", "method", "region", "tier"):
        if name in match and facts[name] not in _listed(match[name]):
            return None
    prefix = -1
    if "ip" in match:
        if request.ip is None:
            return None
        ip = ip_address(request.ip)
        ranges = [ip_network(text) for text in _listed(match["ip"])]
        lengths = [r.prefixlen for r in ranges if r.version == ip.version and ip in r]
        if not lengths:
            return None
        prefix = max(lengths)
    endpoint = (0, 0)
    if "endpoint" in match:
        if request.path is None:
            return None
        met = [p.specificity for p in _patterns(rule) if p.matches(normalise(request.path))]
        if not met:
            return None
        endpoint = max(met)
    wanted = match.get("descriptors", {})
    if any(request.descriptors.get(name) not in _listed(values) for name, values in wanted.items()):
        return None
    has = {name: int(name in match) for name in ("user", "api_key", "org", "method", "region", "tier")}
    return (
        has["user"],
        has["api_key"],
        has["org"],
        prefix,
        *endpoint,
        has["method"],
        has["region"],
        len(wanted),
        has["tier"],
    )


def _order(rule: RuleDoc, rank: tuple[int, ...]) -> tuple[int, tuple[int, ...], str]:
    """SEMANTICS 1.3: the smallest wins."""
    return -rule.get("priority", 100), tuple(-part for part in rank), rule["name"]


def _order_alone(rule: RuleDoc, rank: tuple[int, ...]) -> tuple[bool, int, bool, tuple[int, ...], str]:
    """SEMANTICS 1.2: the smallest wins. An operator's block (an override's) comes before any rule."""
    priority, specificity, name = _order(rule, rank)
    return not name.startswith("override-block:"), priority, rule["action"] == "allow", specificity, name


def _subject(by: By, facts: Mapping[str, str | None], request: Request) -> tuple[tuple[str, str], ...] | None:
    """SEMANTICS 1.8: what is counted, or None when a fact is missing that nothing stands in for."""
    subject = []
    for name in by:
        value = facts.get(name) if name in FACTS else request.descriptors.get(name)
        if value is None and name in ("user", "api_key"):
            subject.append(("anonymous", "") if request.ip is None else ("ip", request.ip))
        elif value is None:
            return None
        else:
            subject.append((name, value))
    return tuple(subject)
