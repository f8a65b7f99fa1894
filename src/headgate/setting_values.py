"""Reading one setting's value. A reader takes text (flags, environment) or a TOML value, and either gives the value or
raises ValueError saying what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Reader = Callable[[object], T]


def text(raw: object) -> str:
    value = optional_text(raw)
    if value is None:
        raise ValueError("expected text")
    return value


def optional_text(raw: object) -> str | None:
    """Empty text switches the setting off."""
    if isinstance(raw, str):
        return raw.strip() or None
    raise ValueError("expected text")


def address(raw: object) -> str | None:
    """HOST:PORT, [IPV6]:PORT; empty for none."""
    value = optional_text(raw)
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not host or (":" in host and not re.fullmatch(r"\[[0-9A-Fa-f:.%]+\]", host)):
        raise ValueError("expected HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080 (empty for no TCP)")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise ValueError("expected a port from 0 (any free one) to 65535 after the last colon")
    return value


def needed_address(raw: object) -> str:
    value = address(raw)
    if value is None:
        raise ValueError("expected HOST:PORT, such as 127.0.0.1:8090")
    return value


def choice(*words: str) -> Reader[str]:
    def read(raw: object) -> str:
        word = raw.strip().lower() if isinstance(raw, str) else raw
        if word not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return str(word)

    return read


def words(*known: str) -> Reader[tuple[str, ...]]:
    """A list by comma (TOML: a list); `none` or empty text for none of them."""

    def read(raw: object) -> tuple[str, ...]:
        parts = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"expected some of {', '.join(known)}, by comma")
        found = tuple(part.strip().lower() for part in parts if part.strip())
        if found == ("none",):
            return ()
        if any(part not in known for part in found):
            raise ValueError(f"expected some of {', '.join(known)}, by comma, or none")
        return found

    return read


def fraction(raw: object) -> float:
    return _number("a number", 0, 1)(raw)


def whole(low: int, high: int) -> Reader[int]:
    def read(raw: object) -> int:
        value: object = raw
        if isinstance(raw, str) and re.fullmatch(r"-?[0-9][0-9_]{0,18}", raw.strip()):
            value = int(raw.strip().replace("_", ""))
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return value

    return read


def seconds(low: float, high: float) -> Reader[float]:
    return _number("seconds", low, high)


def milliseconds(low: float, high: float) -> Reader[float]:
    return _number("milliseconds", low, high)


def _number(unit: str, low: float, high: float) -> Reader[float]:
    def read(raw: object) -> float:
        value: object = raw
        if isinstance(raw, str):
            try:
                value = float(raw)
            except ValueError:
                value = None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"expected {unit} from {low:g} to {high:g}")
        if not low <= value <= high:
            raise ValueError(f"expected {unit} from {low:g} to {high:g}")
        return float(value)

    return read


def without_password(value: object) -> object:
    """A URL as it may be shown: `redis://***@host`. Everything before the last @ goes, for a password may hold any
    sign that would end it."""
    if not isinstance(value, str) or "://" not in value:
        return value
    scheme, _, rest = value.partition("://")
    if "@" in rest:
        rest = "***@" + rest.rpartition("@")[2]
    return f"{scheme}://" + re.sub(r"(?i)((?:password|secret|token)=)[^&]*", r"\1***", rest)


def shown(value: object) -> object:
    """A value as it would be written in a flag."""
    return (",".join(value) or "none") if isinstance(value, tuple) else value
