"""When something ends, as people write it: a time, or a length from now on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headgate.control.api.problems import unprocessable
from headgate.control.moments import read_length, read_time, written

_LENGTHS = ("s", "m", "h", "d", "w")


def end_of(text: str) -> datetime:
    """Raises Problem (422)."""
    try:
        if text.endswith(_LENGTHS):
            return datetime.now(UTC) + read_length(text)
        return datetime.fromisoformat(read_time(text))
    except ValueError:
        message = "expected a time such as `2027-01-31T12:00:00Z`, or a length such as `90d`"
        raise unprocessable(f"expires: {message}", ("expires", message)) from None


def with_end(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body whose `expires` is a time, if it has one. What is no text is left to be judged with the rest."""
    given = body.get("expires")
    return {**body, "expires": written(end_of(given))} if isinstance(given, str) else dict(body)
