"""What is wrong with rules that are well written: those that never match, never win, or say what has no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.rules import RULES_MAX, Rule, RulesFacts
from headgate.doctor.judge.matching import network, texts, upper
from headgate.doctor.judge.never_win import find_never_winning

SHOWN_MAX = 5
# Others exist; a misspelt one is likelier.
_HTTP = ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY")
_WEBDAV = ("PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "ACL", "MERGE")
METHODS = {*_HTTP, *_WEBDAV, "PURGE", "LINK", "UNLINK"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_ANY_METHOD = ("*", "ANY", "ALL")
# What only those tell who ask a node in words of their own.
_DESCRIBING = {"descriptors", "descriptor_exact"}
# What only a caller who is known has.
_CALLER_FACTS = ("user", "org", "api_key")


def judge_rules(facts: RulesFacts, *, now: datetime, is_shared: bool) -> Iterator[Finding]:
    if facts.mistakes:
        shown = "; ".join(str(mistake) for mistake in facts.mistakes[:SHOWN_MAX])
        more = len(facts.mistakes) - SHOWN_MAX
        yield problem(
            "rules.mistakes",
            "The rules have mistakes",
            shown + (f"; and {more} more" if more > 0 else ""),
            "correct them: a node does not start with them, and a running one goes on with its old rules",
        )
        return
    if facts.is_starter:
        yield note("rules.starter", "No rules are given", "a node uses the starter rules", "give --rules FILE")
    yield from _judge_each(facts, now)
    yield from _judge_winning(facts)
    closed = [str(rule["name"]) for rule in facts.rules if _is_closed(rule)]
    if closed and not is_shared:
        yield note(
            "rules.closed_without_store",
            "Rules say what happens when the store is lost, and there is no store to lose",
            _names(closed),
            "nothing to do with counters in memory; with --store it takes effect",
        )
    if facts.is_cut:
        yield note(
            "rules.cut",
            "There are more rules than are compared with each other",
            f"the first {RULES_MAX:,} of {facts.place} were looked at",
            "split the file, and look at its parts one by one",
        )


def judge_gateway_rules(facts: RulesFacts, *, knows_callers: bool) -> Iterator[Finding]:
    """At a gateway nobody else says who is asking, or anything beside what the request itself shows."""
    if facts.mistakes:
        return
    describing = [str(rule["name"]) for rule in facts.rules if _DESCRIBING & set(rule.get("match") or {})]
    if describing:
        yield note(
            "rules.no_descriptors",
            "Rules ask for descriptors, which requests through the gateway do not have",
            _names(describing),
            "they are for callers of the node's API; at the gateway these rules never match",
        )
    if knows_callers:
        return
    blind = [str(rule["name"]) for rule in facts.rules if _needs_caller(rule)]
    if blind:
        yield warning(
            "rules.unknown_callers",
            "Rules ask who is calling, and the gateway knows no caller",
            _names(blind),
            "say how callers are known (jwt_jwks, api_keys and the like); at the gateway these rules never match",
        )


def _judge_each(facts: RulesFacts, now: datetime) -> Iterator[Finding]:
    for rule in facts.rules:
        if not rule.get("enabled", True):
            continue
        name = str(rule["name"])
        match = rule.get("match") or {}
        yield from _judge_methods(name, match)
        yield from _judge_addresses(name, match)
        yield from _judge_end(name, rule.get("until"), now)
        for text in texts(match.get("endpoint", [])):
            if "?" in text or "#" in text:
                yield warning(
                    "rules.query",
                    "A rule's endpoint has a query, which is dropped",
                    f"{name}: {text}",
                    "write the path alone: the rule matches it whatever the query is",
                )
    for override in facts.overrides:
        block = override.get("block")
        if isinstance(block, dict):
            kind = next(kind for kind in _CALLER_FACTS if kind in override)
            yield from _judge_end(f"the block of {kind} {override[kind]}", block.get("until"), now)


def _judge_methods(name: str, match: dict[str, Any]) -> Iterator[Finding]:
    for text in texts(match.get("method", [])):
        if upper(text) in METHODS:
            continue
        if not _TOKEN.match(text) or upper(text) in _ANY_METHOD:
            yield warning(
                "rules.no_method",
                "A rule asks for a method that no request can have",
                f"{name}: {text!r}",
                "write a list, `method: [GET, POST]`; to match any method, leave it out",
            )
        else:
            yield note(
                "rules.odd_method",
                "A rule asks for a method that is not one of HTTP's",
                f"{name}: {text!r}",
                "look whether it is misspelt",
            )


def _judge_addresses(name: str, match: dict[str, Any]) -> Iterator[Finding]:
    for text in texts(match.get("ip", [])):
        there = network(text)
        if there.is_multicast or (there.is_unspecified and there.prefixlen == there.max_prefixlen) or _is_future(there):
            yield warning(
                "rules.no_address",
                "A rule asks for addresses that no request comes from",
                f"{name}: {text}",
                "these are multicast, unspecified or reserved: look whether it is misspelt",
            )


def _is_future(there: Any) -> bool:
    """240.0.0.0/4, which was never given out."""
    return bool(there.version == 4 and there.is_reserved and there.prefixlen > 0)


def _judge_end(name: str, until: object, now: datetime) -> Iterator[Finding]:
    if not isinstance(until, str):
        return
    try:
        ended = datetime.fromisoformat(until)
    except ValueError:
        return
    if ended.replace(tzinfo=ended.tzinfo or UTC) <= now:
        yield note("rules.ended", "A block has ended", f"{name}: until {until}", "remove it: it blocks nobody any more")


def _judge_winning(facts: RulesFacts) -> Iterator[Finding]:
    found = find_never_winning(facts.rules, facts.overrides)
    for shadowed in found.never_win:
        winners = _names(list(shadowed.winners))
        if shadowed.is_decided_first:
            yield warning(
                "rules.decided_first",
                "A rule never applies: a block or an exemption decides every request it matches",
                f"{shadowed.name}, by {winners}",
                "remove it, or narrow what decides first",
            )
        else:
            yield warning(
                "rules.never_wins",
                "A rule never wins: others match all that it matches, and are stronger",
                f"{shadowed.name} loses to {winners}",
                "give it a higher priority, count by something else, or remove it",
            )
    if found.looked_at < found.rules:
        yield note(
            "rules.not_compared",
            "Not every rule was compared with the others",
            f"{found.looked_at:,} of {found.rules:,}, then it took too long",
            "split the file, and look at its parts one by one",
        )
    elif found.rules and not found.never_win:
        yield well("rules.never_wins", "Every rule can win", f"{found.rules:,} of {facts.place}")


def _is_closed(rule: Rule) -> bool:
    if not rule.get("enabled", True):
        return False
    preset = "closed" if rule.get("class") == "abuse" else "open"
    return str(rule.get("on_store_failure", preset)) == "closed"


def _needs_caller(rule: Rule) -> bool:
    match = rule.get("match") or {}
    tiers = texts(match.get("tier", "free"))
    return bool(rule.get("enabled", True)) and (any(fact in match for fact in _CALLER_FACTS) or "free" not in tiers)


def _names(names: list[str]) -> str:
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
