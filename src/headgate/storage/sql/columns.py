"""What the columns beside a body hold: pure functions of it. The engine has judged bodies before they come here."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping
from typing import Any

from headgate.errors import ConfigError
from headgate.feed import Kind
from headgate.storage.sql.moments import moment_of

# An index entry of PostgreSQL holds at most about 2,700 bytes.
ID_BYTES_MAX = 1_100
VALUE_BYTES_MAX = 1_024
BODY_BYTES_MAX = 2 * 1024 * 1024
PRINCIPALS = ("user", "org", "api_key")
BLOCKED_BY = ("ip", *PRINCIPALS)
# Those that pick out the fewest rules first.
FACTS = ("user", "api_key", "org", "endpoint", "ip", "region", "tier", "method")

Values = dict[str, Any]


def canonical(body: Mapping[str, Any]) -> str:
    """The one text of a body: keys sorted, no spaces. Two bodies are the same if their texts are."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def derived(kind: Kind, entry_id: str, body: Mapping[str, Any]) -> Values:
    """The values of `schema.DERIVED[kind]`. Raises ConfigError for a text no database can hold."""
    values = _DERIVE[kind](entry_id, body)
    for column, value in values.items():
        if isinstance(value, str):
            check_text(value, f"{kind.word} {entry_id[:60]!r}: {column}")
    return values


def facts(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a rule matches, as (fact, value), each once."""
    match = body.get("match") or {}
    for fact in FACTS:
        wanted = match.get(fact)
        if wanted is None:
            continue
        listed = wanted if isinstance(wanted, list) else [wanted]
        for value in dict.fromkeys(spelled(fact, value) for value in listed):
            check_text(value, f"match.{fact}", VALUE_BYTES_MAX)
            yield fact, value


def spelled(fact: str, value: object) -> str:
    """One spelling for what means the same: methods in capitals, addresses and ranges in their shortest form."""
    text = str(value)
    if fact == "method":
        return text.upper()
    if fact == "ip":
        return _network(text)
    return text


def networks_of(address: str) -> list[str]:
    """An address and every range that holds it, as `spelled` writes them; a range, alone."""
    try:
        network = ipaddress.ip_network(_network(address))
    except ValueError:
        return [address]
    if network.prefixlen < network.max_prefixlen:
        return [str(network)]
    wider = [str(network.supernet(new_prefix=bits)) for bits in range(network.max_prefixlen)]
    return [str(network.network_address), *wider]


def check_id(kind: Kind, entry_id: str) -> str:
    if not entry_id:
        raise ConfigError(f"a {kind.word} needs an id; this one is empty")
    return check_text(entry_id, f"the id of a {kind.word}", ID_BYTES_MAX)


def check_text(text: str, what: str, bytes_max: int = BODY_BYTES_MAX) -> str:
    """Raises ConfigError for what a database cannot keep; better here than as a driver's error."""
    if "\0" in text:
        raise ConfigError(f"{what}: holds a NUL character, which no database keeps in a text; leave it out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"{what}: is not Unicode text: half of a surrogate pair stands alone") from None
    if size > bytes_max:
        raise ConfigError(f"{what}: {size} bytes, expected at most {bytes_max}")
    return text


def is_storable(text: str) -> bool:
    """Nothing in the database can equal a text that is not."""
    try:
        check_text(text, "")
    except ConfigError:
        return False
    return True


def _rule(_: str, body: Mapping[str, Any]) -> Values:
    group = body.get("group")
    return {
        "enabled": body.get("enabled", True) is not False,
        "action": str(body.get("action") or "throttle"),
        "priority": int(body.get("priority", 100)),
        "group_name": None if group is None else check_text(str(group), "group", VALUE_BYTES_MAX),
    }


def _override(entry_id: str, body: Mapping[str, Any]) -> Values:
    principal, _, value = entry_id.partition(":")
    if principal not in PRINCIPALS or not value:
        raise ConfigError(f"override {entry_id[:60]!r}: expected user:ID, org:ID or api_key:ID")
    return {
        "principal": principal,
        "value": value,
        "tier": _text(body.get("tier")),
        "blocked": bool(body.get("block")),
    }


def _block(entry_id: str, body: Mapping[str, Any]) -> Values:
    what = next((name for name in BLOCKED_BY if body.get(name) is not None), None)
    if what is None:
        raise ConfigError(f"block {entry_id[:60]!r}: expected one of {', '.join(BLOCKED_BY)}")
    return {
        "what": what,
        "value": check_text(spelled(what, body[what]), what, VALUE_BYTES_MAX),
        "until": moment_of(body.get("until")),
        "why": _text(body.get("why")),
    }


def _key(_: str, body: Mapping[str, Any]) -> Values:
    return {
        "hash": str(body["hash"]),
        "name": _text(body.get("name")),
        "user_id": _text(body.get("user")),
        "org_id": _text(body.get("org")),
        "tier": _text(body.get("tier")),
        "expires": moment_of(body.get("expires")),
        "revoked": moment_of(body.get("revoked")),
        "revoked_by": _text(body.get("revoked_by")),
    }


def _tier(_: str, body: Mapping[str, Any]) -> Values:
    return {"description": _text(body.get("description"))}


def _switch(_: str, __: Mapping[str, Any]) -> Values:
    return {}


_DERIVE = {
    Kind.RULE: _rule,
    Kind.OVERRIDE: _override,
    Kind.BLOCK: _block,
    Kind.KEY: _key,
    Kind.SWITCH: _switch,
    Kind.TIER: _tier,
}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _network(text: str) -> str:
    try:
        network: ipaddress.IPv4Network | ipaddress.IPv6Network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text
    if isinstance(network, ipaddress.IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= 96:
            network = ipaddress.IPv4Network((mapped, network.prefixlen - 96))
    whole = network.prefixlen == network.max_prefixlen
    return str(network.network_address) if whole else str(network)
