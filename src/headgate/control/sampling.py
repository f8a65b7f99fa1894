"""Requests that rules match, made up from their own words: pure, bounded, and the same every time.

A match is taken apart into dimensions with their values. A request of one rule has a value for each; a request of two
rules at once needs values that suit both.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Facts = dict[str, Any]
Match = dict[str, list[str]]

# Of a list of values; more of the same tell nothing new.
VALUES_MAX = 3
_TEXTS = ("tier", "method", "user", "api_key", "org", "region")
# What stands for a fact that a rule counts by without asking for a value.
_MADE_UP = {"user": "example", "api_key": "example", "org": "example", "region": "example", "ip": "192.0.2.1"}
_MADE_UP_SEGMENT = "example"
_DESCRIPTOR = "descriptors."
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def match_of(rule: Mapping[str, Any]) -> Match:
    """Every dimension a rule asks for, each with its values; descriptors are dimensions of their own."""
    given = rule.get("match") or {}
    match = {name: _texts(given[name]) for name in (*_TEXTS, "endpoint", "ip") if name in given}
    for name, values in (given.get("descriptors") or {}).items():
        match[_DESCRIPTOR + name] = _texts(values)
    return match


def by_of(rule: Mapping[str, Any]) -> list[str]:
    return [name for name in _texts(rule.get("by") or []) if name != "global"]


def requests_of(rule: Mapping[str, Any]) -> Iterator[Facts]:
    """One with the first value of everything, then one for each other value."""
    match, by = match_of(rule), by_of(rule)
    yield _facts({name: values[0] for name, values in match.items() if values}, by)
    for name, values in match.items():
        for value in values[1:VALUES_MAX]:
            yield _facts({other: some[0] for other, some in match.items() if some} | {name: value}, by)


def request_of_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Facts | None:
    """A request that both rules match; None where none was found."""
    first, second = match_of(one), match_of(other)
    chosen: dict[str, str] = {}
    for name in first.keys() | second.keys():
        if name not in first or name not in second:
            values = first.get(name) or second.get(name) or []
            value = values[0] if values else None
        else:
            value = _common(name, first[name], second[name])
        if value is None:
            return None
        chosen[name] = value
    return _facts(chosen, [*by_of(one), *by_of(other)])


def _common(name: str, first: Sequence[str], second: Sequence[str]) -> str | None:
    if name == "endpoint":
        return next((path for a, b in _pairs(first, second) if (path := _common_path(a, b))), None)
    if name == "ip":
        return next((inner for a, b in _pairs(first, second) if (inner := _inner(a, b))), None)
    if name == "method":
        first, second = [text.upper() for text in first], [text.upper() for text in second]
    return next((value for value in first if value in second), None)


def _pairs(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.islice(itertools.product(first, second), 256)


def _common_path(one: str, other: str) -> str | None:
    """A pattern that both match, segment by segment; `*` at the end takes whatever the other has left."""
    a, b = one.strip("/").split("/"), other.strip("/").split("/")
    common: list[str] = []
    for nth, (left, right) in enumerate(itertools.zip_longest(a, b)):
        if left == "*" and right is not None:
            return "/" + "/".join([*common, *b[nth:]])
        if right == "*" and left is not None:
            return "/" + "/".join([*common, *a[nth:]])
        if left is None or right is None:
            return None
        if not (_is_parameter(left) or _is_parameter(right) or left == right):
            return None
        common.append(right if _is_parameter(left) else left)
    return "/" + "/".join(common)


def _inner(one: str, other: str) -> str | None:
    """The narrower of two ranges, if it lies in the other."""
    first, second = _network(one), _network(other)
    if first is None or second is None or first.version != second.version:
        return None
    narrow, wide = (one, second) if first.prefixlen >= second.prefixlen else (other, first)
    inner = _network(narrow)
    return narrow if inner is not None and inner.network_address in wide else None


def _facts(values: Mapping[str, str], by: Sequence[str]) -> Facts:
    facts: Facts = {}
    descriptors: dict[str, str] = {}
    for name, value in values.items():
        if name.startswith(_DESCRIPTOR):
            descriptors[name.removeprefix(_DESCRIPTOR)] = value
        elif name == "endpoint":
            facts["path"] = path_of(value)
        elif name == "ip":
            network = _network(value)
            facts["ip"] = value if network is None else str(network.network_address)
        else:
            facts[name] = value
    for name in by:
        if name == "endpoint":
            facts.setdefault("path", "/" + _MADE_UP_SEGMENT)
        elif name == "method":
            facts.setdefault("method", "GET")
        elif name in _MADE_UP:
            facts.setdefault(name, _MADE_UP[name])
        elif name != "tier":
            descriptors.setdefault(name, _MADE_UP_SEGMENT)
    return dict(sorted(facts.items())) | ({"descriptors": dict(sorted(descriptors.items()))} if descriptors else {})


def path_of(pattern: str) -> str:
    """A path that a pattern matches."""
    segments = pattern.split("/")
    return "/".join(_MADE_UP_SEGMENT if part == "*" or _is_parameter(part) else part for part in segments)


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{") and segment.endswith("}")


def _network(text: str) -> _Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]
