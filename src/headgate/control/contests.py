"""Which existing rules would win or lose by a change.

Nobody can try all requests. Those are tried that the changed rules are made for, and those that they share with rules
like them; the mirror is asked who wins each, with the change and without it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.control.change import Contest
from headgate.control.entry_body import BLOCKED_FACTS, PRINCIPALS
from headgate.control.mirror import Mirror
from headgate.control.sampling import Facts, match_of, request_of_both, requests_of
from headgate.feed import Kind
from headgate.storage.sql import Changed, Transaction, entries

CHANGES_MAX = 50
CANDIDATES_MAX = 200
REQUESTS_MAX = 1_000
CONTESTS_MAX = 100
# Of a changed rule's own values, how many are looked up, and how many rules for each.
_LOOKUPS_MAX = 16
_PER_LOOKUP = 20
# Rules that share no value but may share requests: some of them, by name; all of them where there are few.
_OTHERS = 50
_FACTS = ("user", "org", "api_key", "endpoint", "ip", "tier", "region", "method")

Winners = dict[tuple[tuple[str, ...], bool], str]
Rule = Mapping[str, Any]


def find_contests(tx: Transaction, mirror: Mirror, changes: Sequence[Changed]) -> tuple[Contest, ...]:
    """The mirror has the changes; when this returns it has them no more."""
    try:
        requests = list(itertools.islice(_requests(tx, changes), REQUESTS_MAX))
        after = [mirror.explain(request) for request in requests]
    finally:
        mirror.undo(changes)
    changed = {name for change in changes for name in _rule_names(change)}
    found: dict[tuple[Any, ...], Contest] = {}
    for request, explained in zip(requests, after, strict=True):
        for contest in _compare(request, mirror.explain(request), explained, changed):
            key = (contest.by, contest.winner_before, contest.winner_after, contest.loser)
            found.setdefault(key, contest)
    return tuple(itertools.islice(found.values(), CONTESTS_MAX))


def _compare(request: Facts, before: Rule, after: Rule, changed: set[str]) -> Iterator[Contest]:
    old, new = _winners(before), _winners(after)
    for by, shadow in sorted(old.keys() | new.keys()):
        lost, won = old.get((by, shadow)), new.get((by, shadow))
        if lost != won:
            yield Contest(request, by, lost, won)
    for one in after["candidates"]:
        if one["rule"] in changed and one["outcome"] == "loses" and one["to"]:
            by = tuple(one["by"])
            was = old.get((by, one["action"] == "shadow"))
            yield Contest(request, by, was, one["to"], one["rule"], one["why"])


def _winners(explained: Rule) -> Winners:
    """Who wins, for each set of facts that is counted by; shadow rules compete among themselves."""
    wins = [one for one in explained["candidates"] if one["outcome"] == "wins"]
    return {(tuple(one["by"]), one["action"] == "shadow"): one["rule"] for one in wins}


def _requests(tx: Transaction, changes: Sequence[Changed]) -> Iterator[Facts]:
    seen: set[str] = set()
    for request in _all_requests(tx, changes):
        key = json.dumps(request, sort_keys=True)
        if key not in seen:
            seen.add(key)
            yield request


def _all_requests(tx: Transaction, changes: Sequence[Changed]) -> Iterator[Facts]:
    rules = [rule for change in changes[:CHANGES_MAX] for rule in _as_rules(change)]
    for rule in rules:
        yield from requests_of(rule)
    for rule in rules:
        for other in _candidates(tx, rule):
            request = request_of_both(rule, other)
            if request is not None:
                yield request


def _candidates(tx: Transaction, rule: Rule) -> Iterator[Rule]:
    """Rules that ask for one of the same values, then some others."""
    values = [(fact, value) for fact in _FACTS for value in match_of(rule).get(fact, [])]
    found: dict[str, Rule] = {}
    for fact, value in values[:_LOOKUPS_MAX]:
        for stored in entries.page(tx, Kind.RULE, limit=_PER_LOOKUP, after=None, filters={fact: value}, search=None):
            found[stored.id] = stored.body
    for stored in entries.page(tx, Kind.RULE, limit=_OTHERS, after=None, filters={}, search=None):
        found.setdefault(stored.id, stored.body)
    return itertools.islice((body for name, body in found.items() if name != rule.get("name")), CANDIDATES_MAX)


def _as_rules(change: Changed) -> Iterator[Rule]:
    """What a change adds and takes away, as rules: an override and a block match whom they are for."""
    for text in (change.after, change.before):
        if text is None:
            continue
        body = json.loads(text)
        if change.kind is Kind.RULE:
            # No request of one fact or another meets a rule for whole descriptors.
            if "descriptor_exact" not in (body.get("match") or {}):
                yield body
        elif change.kind in (Kind.OVERRIDE, Kind.BLOCK):
            named = PRINCIPALS if change.kind is Kind.OVERRIDE else BLOCKED_FACTS
            match = {fact: body[fact] for fact in named if fact in body}
            yield {"name": change.id, "match": match, "by": list(match)}


def _rule_names(change: Changed) -> tuple[str, ...]:
    """What the engine calls it."""
    if change.kind is Kind.OVERRIDE:
        return f"override:{change.id}", f"override-block:{change.id}"
    return (change.id,) if change.kind is Kind.RULE else ()
