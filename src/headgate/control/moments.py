"""Moments and lengths of time as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

Clock = Callable[[], datetime]

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_LENGTH = re.compile(r"([1-9][0-9]{0,6})\s*(s|m|h|d|w)\Z", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_YEARS = range(1970, 9_999)
LENGTH_MAX = timedelta(days=10 * 366)


def now_utc() -> datetime:
    return datetime.now(UTC)


def written(when: datetime) -> str:
    """RFC 3339 in UTC, to the second: what is kept."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(value: Any) -> str:
    """A time somebody gave, as it is kept. Raises ValueError."""
    if isinstance(value, str) and _RFC_3339.match(value):
        try:
            when = datetime.fromisoformat(value.upper().replace(" ", "T")).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        else:
            if when.year in _YEARS:
                return written(when)
    raise ValueError("expected a time such as `2027-01-31T12:00:00Z`")


def read_length(value: Any) -> timedelta:
    """`90s`, `15m`, `1h`, `7d`. Raises ValueError."""
    found = _LENGTH.match(value) if isinstance(value, str) else None
    length = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    if length is None:
        raise ValueError("expected a length of time such as `90s`, `15m`, `1h` or `7d`")
    if length > LENGTH_MAX:
        raise ValueError(f"is longer than {LENGTH_MAX.days:,} days; leave it out for one without an end")
    return length
