"""Reading settings that are lists: text by comma, or a list in TOML. Kept as text by comma, as they are shown."""

from __future__ import annotations

import ipaddress
import re

import headgate._core as _core

_BROKER_SCHEMES = ("redis://", "rediss://", "unix://")
_REGION_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")


def optional_texts(raw: object) -> str | None:
    """Empty text switches the setting off."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not all(isinstance(part, str) and "," not in part for part in parts):
        raise ValueError("expected text, or several by comma")
    return ",".join(part.strip() for part in parts if part.strip()) or None


def split(value: str | None) -> list[str]:
    return value.split(",") if value else []


def ranges(raw: object) -> str | None:
    value = optional_texts(raw)
    for part in split(value):
        try:
            ipaddress.ip_network(part)
        except ValueError:
            raise ValueError(f"expected addresses or ranges such as 10.0.0.0/8 by comma; {part!r} is none") from None
    return value


def header_name(raw: object) -> str:
    value = raw.strip() if isinstance(raw, str) else ""
    if not _HEADER_NAME.match(value):
        raise ValueError("expected the name of a header, such as X-API-Key")
    return value


def upstreams(raw: object) -> str | None:
    """[/PREFIX=]URL by comma. The engine knows what is one."""
    value = optional_texts(raw)
    _core.check_upstreams(split(value))
    return value


def regions(raw: object) -> str | None:
    """NAME=URL by comma; a table in TOML as well."""
    if isinstance(raw, dict):
        raw = [f"{name}={url}" for name, url in raw.items()]
    value = optional_texts(raw)
    by_region(value)
    return value


def by_region(value: str | None) -> dict[str, str]:
    """Raises ValueError for what is no list of regions."""
    found: dict[str, str] = {}
    for part in split(value):
        name, equals, url = part.partition("=")
        if not equals or not _REGION_NAME.match(name) or not url.startswith(_BROKER_SCHEMES):
            raise ValueError(
                "expected NAME=redis://HOST:PORT by comma, such as eu=redis://10.0.0.1,us=redis://10.1.0.1"
            )
        if name in found:
            raise ValueError(f"expected each region once; {name} is there twice")
        found[name] = url
    return found
