"""Bodies of entries as somebody sent them, made canonical: plain data, `meta` dropped, numbers that are ids made text.

What a rule or an override means is the engine's to judge (`mirror.py`); the other kinds are judged here, in full.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headgate.control.moments import read_time
from headgate.errors import Path
from headgate.feed import Kind
from headgate.model.plain_data import plain_data
from headgate.storage.sql import canonical

Body = dict[str, Any]
Mistakes = list[tuple[Path, str]]

NAME_BYTES_MAX = 128
TEXT_BYTES_MAX = 1_024
DESCRIPTION_BYTES_MAX = 4_096
# Larger bodies could not be published; the engine's own bounds keep any sensible one far below.
BODY_BYTES_MAX = 1024 * 1024
# What every rule may be turned to shadow by.
EVERY_RULE = "*"

PRINCIPALS = ("user", "org", "api_key")
BLOCKED_FACTS = ("ip", *PRINCIPALS)
BLOCK_ID = re.compile(r"b[a-z0-9]{11}\Z")
KEY_ID = re.compile(r"[a-z][a-z0-9]{2,63}\Z")

_HASH = re.compile(r"[0-9a-f]{64}\Z")
_MATCH_TEXTS = ("tier", "endpoint", "method", "ip", "user", "api_key", "org", "region")


def clean(kind: Kind, given: Mapping[str, Any], mistakes: Mistakes) -> Body:
    """A body as it will be kept. What is wrong goes to `mistakes`, and then the result is of no use."""
    value, flaws = plain_data({name: item for name, item in given.items() if name != "meta"})
    if flaws or not isinstance(value, dict):
        mistakes += [(flaw.path, flaw.message) for flaw in flaws]
        return {}
    before = len(mistakes)
    _find_nul(value, (), mistakes)
    return {} if len(mistakes) > before else clean_plain(kind, value, mistakes)


def clean_plain(kind: Kind, body: Body, mistakes: Mistakes) -> Body:
    """`clean` for a body that is plain data already, and its caller's own: it is changed in place."""
    before = len(mistakes)
    body.pop("meta", None)
    _CLEANERS[kind](body, mistakes)
    if len(mistakes) == before and len(canonical(body).encode()) > BODY_BYTES_MAX:
        mistakes.append(((), f"is larger than {BODY_BYTES_MAX // 2**20} MiB"))
    return body


def id_of(kind: Kind, body: Mapping[str, Any]) -> str | None:
    """What a body calls itself; None when it does not say, or says it wrongly."""
    if kind is Kind.OVERRIDE:
        named = [name for name in PRINCIPALS if name in body]
        value = as_text(body[named[0]]) if len(named) == 1 else None
        return f"{named[0]}:{value}" if isinstance(value, str) and value else None
    value = as_text(body.get("name" if kind in (Kind.RULE, Kind.TIER) else "id"))
    return value if isinstance(value, str) and value else None


def with_id(kind: Kind, id: str, body: Mapping[str, Any]) -> tuple[Body, tuple[Path, str] | None]:
    """A body that was sent to an entry's own address, with that entry's name in it, and what is wrong with the two."""
    filled = dict(body)
    if kind is Kind.OVERRIDE:
        field, _, value = id.partition(":")
        others = [name for name in PRINCIPALS if name in filled and name != field]
        if field not in PRINCIPALS or not value:
            return filled, ((), "an override is for `user:ID`, `org:ID` or `api_key:ID`")
        if others:
            return filled, ((others[0],), f"this override is for the {field} `{value}`, and for nobody else")
    else:
        field, value = ("name" if kind in (Kind.RULE, Kind.TIER) else "id"), id
    said = as_text(filled.setdefault(field, value))
    if isinstance(said, str) and said != value:
        words = f"`{said}` is not what it was addressed as (`{value}`); to rename, create the new one and delete this"
        return filled, ((field,), words)
    return filled, None


def tiers_named(kind: Kind, body: Mapping[str, Any]) -> list[tuple[Path, str]]:
    """The tiers a body speaks of, and where."""
    if kind in (Kind.OVERRIDE, Kind.KEY):
        tier = body.get("tier")
        return [(("tier",), tier)] if isinstance(tier, str) else []
    match = body.get("match")
    tiers = match.get("tier") if kind is Kind.RULE and isinstance(match, dict) else None
    if isinstance(tiers, str):
        return [(("match", "tier"), tiers)]
    listed = tiers if isinstance(tiers, list) else []
    return [(("match", "tier", nth), tier) for nth, tier in enumerate(listed) if isinstance(tier, str)]


def as_text(value: Any) -> Any:
    """Ids are often whole numbers; they are texts all the same."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _as_texts(value: Any) -> Any:
    return [as_text(item) for item in value] if isinstance(value, list) else as_text(value)


def _texts_at(body: Body, names: Sequence[str]) -> None:
    for name in names:
        if name in body:
            body[name] = _as_texts(body[name])


def _find_nul(value: Any, path: Path, mistakes: Mistakes) -> None:
    """No database keeps a NUL; the engine refuses it nearly everywhere, and this everywhere."""
    if isinstance(value, str):
        if "\0" in value:
            mistakes.append((path, "must not hold a NUL character"))
    elif isinstance(value, dict):
        for name, item in value.items():
            if "\0" in name:
                mistakes.append((path, "a key must not hold a NUL character"))
            _find_nul(item, (*path, name), mistakes)
    elif isinstance(value, list):
        for nth, item in enumerate(value):
            _find_nul(item, (*path, nth), mistakes)


def _clean_rule(body: Body, _: Mistakes) -> None:
    _texts_at(body, ("name", "by", "group", "counter", "replaces"))
    match, response, limit = body.get("match"), body.get("response"), body.get("limit")
    if isinstance(match, dict):
        _texts_at(match, _MATCH_TEXTS)
        descriptors = match.get("descriptors")
        if isinstance(descriptors, dict):
            _texts_at(descriptors, tuple(descriptors))
        _clean_whole(match.get("descriptor_exact"))
    if isinstance(response, dict):
        _texts_at(response, ("message",))
    for item in limit if isinstance(limit, list) else [limit]:
        if isinstance(item, dict):
            _texts_at(item, ("label",))


def _clean_whole(exact: Any) -> None:
    if not isinstance(exact, dict):
        return
    _texts_at(exact, ("domain",))
    entries = exact.get("entries")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            _texts_at(entry, ("key", "value"))


def _clean_override(body: Body, _: Mistakes) -> None:
    _texts_at(body, (*PRINCIPALS, "tier", "counter"))
    block, limit = body.get("block"), body.get("limit")
    if isinstance(block, dict):
        _texts_at(block, ("reason",))
    for item in limit if isinstance(limit, list) else [limit]:
        if isinstance(item, dict):
            _texts_at(item, ("label",))


def _clean_tier(body: Body, mistakes: Mistakes) -> None:
    _texts_at(body, ("name",))
    _known(body, ("name", "description"), mistakes)
    _text(body, "name", mistakes, bytes_max=NAME_BYTES_MAX, needed="a tier needs a `name`")
    _words(body, "description", mistakes)


def _clean_switch(body: Body, mistakes: Mistakes) -> None:
    _texts_at(body, ("id",))
    _known(body, ("id",), mistakes)
    words = f"a switch needs an `id`: a rule's name, or `{EVERY_RULE}` for all"
    _text(body, "id", mistakes, bytes_max=NAME_BYTES_MAX, needed=words)


def _clean_block(body: Body, mistakes: Mistakes) -> None:
    _texts_at(body, BLOCKED_FACTS)
    _known(body, ("id", *BLOCKED_FACTS, "until", "why"), mistakes)
    if not BLOCK_ID.match(str(body.get("id"))):
        mistakes.append((("id",), "expected `b` and 11 letters or digits"))
    named = [fact for fact in BLOCKED_FACTS if fact in body]
    if len(named) != 1:
        mistakes.append(((), "a block is for exactly one of `ip`, `user`, `org`, `api_key`"))
    for fact in named:
        _text(body, fact, mistakes, bytes_max=TEXT_BYTES_MAX)
    if isinstance(body.get("ip"), str):
        body["ip"] = _network(body["ip"], mistakes)
    _time(body, "until", mistakes)
    _words(body, "why", mistakes, bytes_max=TEXT_BYTES_MAX)


def _clean_key(body: Body, mistakes: Mistakes) -> None:
    texts = ("name", "user", "org", "tier", "revoked_by")
    _texts_at(body, ("id", *texts))
    _known(body, ("id", "hash", *texts, "created", "expires", "revoked"), mistakes)
    if not KEY_ID.match(str(body.get("id"))):
        mistakes.append((("id",), "expected a small letter, then 2 to 63 small letters or digits"))
    if not _HASH.match(str(body.get("hash"))):
        mistakes.append((("hash",), "expected 64 hexadecimal digits"))
    for name in texts:
        _text(body, name, mistakes, bytes_max=TEXT_BYTES_MAX)
    for name in ("created", "expires", "revoked"):
        _time(body, name, mistakes)


_CLEANERS: dict[Kind, Callable[[Body, Mistakes], None]] = {
    Kind.RULE: _clean_rule,
    Kind.OVERRIDE: _clean_override,
    Kind.TIER: _clean_tier,
    Kind.SWITCH: _clean_switch,
    Kind.BLOCK: _clean_block,
    Kind.KEY: _clean_key,
}


def _known(body: Body, names: Sequence[str], mistakes: Mistakes) -> None:
    for name in body:
        if name not in names:
            mistakes.append(((name,), f"`{name}` is not known here; expected one of {', '.join(names)}"))


def _text(body: Body, name: str, mistakes: Mistakes, *, bytes_max: int, needed: str | None = None) -> None:
    """One line of bounded length. Absent is a mistake only where it is needed."""
    value = body.get(name)
    if name not in body:
        if needed:
            mistakes.append(((), needed))
    elif not isinstance(value, str) or not value or len(value.encode()) > bytes_max:
        mistakes.append(((name,), f"expected a text of 1 to {bytes_max:,} bytes"))
    elif not value.isprintable():
        mistakes.append(((name,), "must not hold control characters"))


def _words(body: Body, name: str, mistakes: Mistakes, *, bytes_max: int = DESCRIPTION_BYTES_MAX) -> None:
    """For people: any characters."""
    value = body.get(name)
    if name in body and (not isinstance(value, str) or len(value.encode()) > bytes_max):
        mistakes.append(((name,), f"expected a text of at most {bytes_max:,} bytes"))


def _time(body: Body, name: str, mistakes: Mistakes) -> None:
    if name not in body:
        return
    try:
        body[name] = read_time(body[name])
    except ValueError as error:
        mistakes.append(((name,), str(error)))


def _network(text: str, mistakes: Mistakes) -> str:
    """One spelling for one range; an IPv4 range written as IPv6 is the IPv4 range."""
    try:
        network = ipaddress.ip_network(text, strict=False)
        address = ipaddress.ip_address(text.partition("/")[0])
    except ValueError:
        words = f"`{text}` is not an address or range; expected `203.0.113.7`, `203.0.113.0/24` or `2001:db8::/32`"
        mistakes.append((("ip",), words))
        return text
    if network.network_address != address:
        mistakes.append((("ip",), f"`{text}` has bits beyond its prefix; did you mean `{network}`?"))
        return text
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = ipaddress.ip_network((mapped, network.prefixlen - 96))
    whole = network.prefixlen == network.max_prefixlen
    return str(network.network_address) if whole else str(network)
