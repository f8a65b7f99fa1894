"""Times and durations as people write them on a command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])\Z")
_DAYS = re.compile(r"([1-9][0-9]{0,4})d\Z")


def seconds(text: str, flag: str) -> int:
    """`90s`, `15m`, `1h`, `7d`."""
    found = _DURATION.match(text)
    if found is None:
        raise ConfigError(f"{flag} {text}: expected a whole number and s, m, h or d, such as 90s, 15m, 1h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def when(text: str, flag: str) -> datetime:
    """A moment: a day, a day and a time, or so many days from now."""
    days = _DAYS.match(text)
    if days:
        return datetime.now(UTC) + timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{flag} {text}: expected 2027-01-31, 2027-01-31T12:00:00Z, or 90d") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def until(until_text: str | None, for_text: str | None) -> str | None:
    """The end that `--until WHEN` or `--for TIME` names; None when neither is given."""
    if until_text is not None and for_text is not None:
        raise ConfigError("--until and --for both say when it ends: give one of them")
    if for_text is not None:
        return written(datetime.now(UTC) + timedelta(seconds=seconds(for_text, "--for")))
    return None if until_text is None else written(when(until_text, "--until"))


def state(entry: Mapping[str, Any]) -> str:
    """Of a key or a token: in use, until when, or ended, and by whom."""
    now = written(datetime.now(UTC))
    if entry.get("revoked") and _iso(entry["revoked"]) <= now:
        return f"revoked {entry['revoked']}" + (f" by {entry['revoked_by']}" if entry.get("revoked_by") else "")
    if entry.get("expires"):
        return f"{'expired' if _iso(entry['expires']) <= now else 'until'} {entry['expires']}"
    return "in use"


def _iso(text: object) -> str:
    """A written time, in the one form that texts can be compared in."""
    return written(when(str(text), "time"))
