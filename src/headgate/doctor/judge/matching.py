"""What rules match, taken apart as the engine does: one case for each choice out of a rule's lists, and a number for
how specific it is (`crates/core/src/rule_index/combination.rs`). A case seen in a wider shape, with fewer facts and
shorter prefixes, matches all that it matched before: so what covers a case is found by looking up its wider forms.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import headgate._core as _core

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Rank = tuple[int, ...]
# Whether it ends in `*`, and of each segment whether it is a parameter.
PatternShape = tuple[bool, tuple[bool, ...]]

EXACT = "descriptor_exact"
TEXTS = ("user", "api_key", "org", "method", "region", "tier")
_KNOWN = {*TEXTS, "ip", "endpoint", "descriptors"}
_LITERAL_MAX = 2**14 - 1
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


@dataclass(frozen=True, slots=True)
class Pattern:
    """`segments` has None where any segment will do."""

    segments: tuple[str | None, ...]
    is_prefix: bool

    @property
    def is_exact(self) -> bool:
        return not self.is_prefix and None not in self.segments

    @property
    def shape(self) -> PatternShape:
        return self.is_prefix, tuple(segment is None for segment in self.segments)

    @property
    def rank(self) -> tuple[int, int]:
        """Exact before parameters before a trailing `*`, then the longer literal part."""
        literal = sum(len(segment.encode()) + 1 for segment in self.segments if segment is not None)
        kind = 3 if self.is_exact else 1 if self.is_prefix else 2
        return kind, min(literal, _LITERAL_MAX)

    def widened(self, shape: PatternShape) -> Pattern | None:
        """The pattern of that shape that every path of this one matches; None where there is none."""
        is_prefix, parameters = shape
        count = len(parameters)
        if is_prefix:
            # `/a/*` is for what lies below `/a`, and `/*` for everything.
            below = len(self.segments) - (0 if self.is_prefix else 1)
            if count and below < count:
                return None
        elif self.is_prefix or len(self.segments) != count:
            return None
        pairs = zip(self.segments, parameters, strict=False)
        kept = tuple(None if is_parameter else segment for segment, is_parameter in pairs)
        literal = [segment for segment, is_parameter in zip(kept, parameters, strict=True) if not is_parameter]
        return None if None in literal else Pattern(kept, is_prefix)


@dataclass(frozen=True, slots=True)
class Shape:
    """Which facts cases test, and in what form."""

    names: frozenset[str]
    ip: tuple[int, int] | None
    endpoint: PatternShape | None


@dataclass(frozen=True, slots=True)
class Case:
    """One choice out of each list of a match; what is not tested is not there."""

    texts: tuple[tuple[str, str], ...]
    ip: Network | None
    endpoint: Pattern | None

    @property
    def shape(self) -> Shape:
        return Shape(
            frozenset(name for name, _ in self.texts),
            None if self.ip is None else (self.ip.version, self.ip.prefixlen),
            None if self.endpoint is None else self.endpoint.shape,
        )

    @property
    def rank(self) -> Rank:
        """More specific is greater, compared in this order."""
        names = {name for name, _ in self.texts}
        has = {name: int(name in names) for name in TEXTS}
        return (
            has["user"],
            has["api_key"],
            has["org"],
            0 if self.ip is None else self.ip.prefixlen + 1,
            *((0, 0) if self.endpoint is None else self.endpoint.rank),
            has["method"],
            has["region"],
            len(names - set(TEXTS)),
            has["tier"],
        )

    def widened(self, shape: Shape) -> Case | None:
        """The case of that shape that matches every request that this one matches; None where there is none."""
        kept = tuple(pair for pair in self.texts if pair[0] in shape.names)
        if len(kept) != len(shape.names):
            return None
        wider = dataclasses.replace(self, texts=kept, ip=None, endpoint=None)
        if shape.ip is not None:
            version, prefix = shape.ip
            if self.ip is None or self.ip.version != version or self.ip.prefixlen < prefix:
                return None
            wider = dataclasses.replace(wider, ip=self.ip.supernet(new_prefix=prefix))
        if shape.endpoint is not None:
            endpoint = None if self.endpoint is None else self.endpoint.widened(shape.endpoint)
            if endpoint is None:
                return None
            wider = dataclasses.replace(wider, endpoint=endpoint)
        return wider


def cases(match: Mapping[str, Any]) -> list[Case] | None:
    """All of them; None where the match asks for something that is not known here, of which nothing can be said."""
    if EXACT in match:
        return [Case(((EXACT, _whole(match[EXACT])),), None, None)]
    if not match.keys() <= _KNOWN:
        return None
    lists: list[list[tuple[str, str]]] = []
    for name in TEXTS:
        if name in match:
            values = texts(match[name])
            lists.append([(name, upper(value) if name == "method" else value) for value in values])
    for name, values in sorted((match.get("descriptors") or {}).items()):
        # Apart from the facts of the same name.
        lists.append([(f"descriptors.{name}", value) for value in texts(values)])
    ips: list[Network | None] = [network(text) for text in texts(match["ip"])] if "ip" in match else [None]
    endpoints: list[Pattern | None] = list(patterns(match)) or [None]
    chosen = itertools.product(itertools.product(*lists), ips, endpoints)
    return [Case(tuple(sorted(some)), ip, endpoint) for some, ip, endpoint in chosen]


def _whole(exact: Mapping[str, Any]) -> str:
    """A whole descriptor as it is looked up: rules with the same one compete, and no others meet it."""
    entries = [f"{entry['key']}_{entry['value']}" if "value" in entry else entry["key"] for entry in exact["entries"]]
    return json.dumps([exact["domain"], entries])


def patterns(match: Mapping[str, Any]) -> list[Pattern]:
    return [pattern(text) for text in texts(match["endpoint"])] if "endpoint" in match else []


def texts(value: Any) -> list[str]:
    """One or several, as rules are written."""
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def upper(text: str) -> str:
    """As methods are compared: of ASCII alone."""
    return "".join(sign.upper() if sign.isascii() else sign for sign in text)


def network(text: str) -> Network:
    """As the engine reads it: IPv4 written as IPv6 is IPv4."""
    read = ipaddress.ip_network(text)
    if isinstance(read, ipaddress.IPv6Network) and read.prefixlen >= _MAPPED.prefixlen and read.subnet_of(_MAPPED):
        low = int(read.network_address) & 0xFFFF_FFFF
        return ipaddress.IPv4Network((low, read.prefixlen - _MAPPED.prefixlen))
    return read


def pattern(text: str) -> Pattern:
    body, is_prefix = (text[:-2], True) if text.endswith("/*") else (text, False)
    segments = [segment for segment in _core.normalise_path(body).split("/") if segment]
    return Pattern(tuple(None if _is_parameter(segment) else segment for segment in segments), is_prefix)


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{") and segment.endswith("}")
