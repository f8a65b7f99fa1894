"""Limitador's limits as they are written, and which of them a rule can say."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.importing.limitador_terms import Term, read_condition, read_variable
from headgate.importing.source import Source, present
from headgate.importing.wording import DESCRIPTORS_MAX, text_problem, too_much
from headgate.model.nodes import Mapping, Node

_KNOWN = frozenset({"namespace", "max_value", "seconds", "conditions", "variables", "name", "id"})
_NEEDED = ("namespace", "max_value", "seconds")
# What entries of a call become here: docs/envoy.md. Any other is a descriptor of its own name.
_FACTS = {"path": "endpoint", "remote_address": "ip"}
_NO_FACTS = {
    "domain": "it is the namespace here",
    "authorization": "here it is credentials to be verified, not a fact",
    "endpoint": "a rule would take it for the path",
    "global": "a rule would take it for a word of its own",
}
_NOT_IN_PATHS = frozenset("{}*?#%")


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: `facts` must hold, and it counts by `variables`; both in our words."""

    where: str
    namespace: str
    count: int
    window_s: int
    facts: frozenset[tuple[str, str]]
    variables: frozenset[str]
    name: str | None
    nth: int | None


class _Cannot(Exception):
    """No rule says this."""

    def __init__(self, at: Node, what: str) -> None:
        super().__init__(what)
        self.at, self.what = at, what


def read_limits(source: Source) -> Iterator[Limit]:
    """Every limit a rule can say; of the others there are notes. What Limitador itself would refuse is a mistake."""
    for node in source.items(_list_in(source), "the file of limits"):
        mapping = source.mapping(node, "a limit")
        if mapping is None:
            continue
        try:
            limit = _limit(source, mapping)
        except _Cannot as found:
            source.note("cannot", found.at, f"{found.what}; this limit is left out")
            continue
        if limit is not None:
            yield limit


def _list_in(source: Source) -> Node:
    """The list itself, or what a Limitador resource of Kubernetes has for it."""
    root = source.root
    if isinstance(root, Mapping):
        spec = present(root, "spec")
        limits = None if not isinstance(spec, Mapping) else present(spec, "limits")
        return root if limits is None else limits
    return root


def _limit(source: Source, mapping: Mapping) -> Limit | None:
    missing = [name for name in _NEEDED if present(mapping, name) is None]
    if missing:
        source.wrong(mapping, f"a limit needs `{'`, `'.join(missing)}`")
        return None
    namespace = source.text(mapping, "namespace")
    count, window_s = source.integer(mapping, "max_value"), source.integer(mapping, "seconds", least=1)
    name = source.text(mapping, "name") or source.text(mapping, "id")
    conditions, variables = source.texts_of(mapping, "conditions"), source.texts_of(mapping, "variables")
    if namespace is None or count is None or window_s is None:
        return None
    for key, entry in mapping.entries.items():
        if key not in _KNOWN:
            source.note("cannot", entry, f"`{key}` is not known here, and was left out; the limit itself is imported")
    problem = text_problem(namespace) or too_much(count, window_s)
    if problem:
        raise _Cannot(mapping, problem)
    tests = [(term, at) for text, at in conditions for term in _tests(text, at)]
    counts = [(_counted(text, at), at) for text, at in variables]
    indices = {term.nth for term, _ in (*tests, *counts)}
    if len(indices) > 1:
        raise _Cannot(mapping, "it looks at several descriptors at once, and a rule at one")
    nth = next(iter(indices), None)
    if nth:
        source.note(
            "differs", mapping, f"`descriptors[{nth}]`: the rule applies to whichever descriptor has these entries"
        )
    facts: dict[str, str] = {}
    for term, at in tests:
        key, value = _fact(term.key, at), _value(term, at)
        if facts.setdefault(key, value) != value:
            source.note("note", mapping, f"`{term.key}` is never two values at once: left out, for it never applies")
            return None
    # What a condition fixes has one value: counting by it is counting all together.
    names = frozenset(_fact(term.key, at) for term, at in counts) - frozenset(facts)
    if "ip" in names:
        source.note("differs", mapping, "IPv6 addresses are counted by their /64 here, unless `ipv6_prefix` is 128")
    if len(facts) >= DESCRIPTORS_MAX or len(names | set(facts)) > DESCRIPTORS_MAX:
        raise _Cannot(mapping, f"a rule tests and counts by fewer than {DESCRIPTORS_MAX} facts")
    return Limit(source.where(mapping), namespace, count, window_s, frozenset(facts.items()), names, name or None, nth)


def _tests(text: str, at: Node) -> list[Term]:
    found = read_condition(text)
    if found is None:
        raise _Cannot(at, f"the condition `{text}` is no equality with a text, which is all that rules match")
    return found


def _counted(text: str, at: Node) -> Term:
    found = read_variable(text)
    if found is None:
        raise _Cannot(at, f"the variable `{text}` is an expression, and rules count by facts as they are")
    return found


def _fact(key: str, at: Node) -> str:
    if key in _NO_FACTS:
        raise _Cannot(at, f"`{key}` cannot be matched or counted by: {_NO_FACTS[key]}")
    problem = text_problem(key)
    if problem:
        raise _Cannot(at, problem)
    return _FACTS.get(key, key)


def _value(term: Term, at: Node) -> str:
    value = term.value or ""
    problem = text_problem(value)
    fact = _fact(term.key, at)
    if fact == "endpoint" and (not value.startswith("/") or _NOT_IN_PATHS & set(value)):
        problem = f"`{value}` is not a plain path"
    if fact == "ip":
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            problem = f"`{value}` is no address"
    if problem:
        raise _Cannot(at, problem)
    return value
