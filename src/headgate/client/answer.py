"""What an answer says about waiting: `Retry-After`, the IETF `RateLimit` fields of several drafts, `X-RateLimit-*`.

Nothing here raises, whatever a server sends: what cannot be read counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from headgate.client.structured import read_list

# Longer than any wait that is meant; absurd numbers end here instead of overflowing somewhere.
SECONDS_CEILING = 1e9
COUNT_CEILING = 10**15
WINDOW_S_MIN = 0.001
POLICIES_MAX = 32
# Before the one, a number is seconds from now; from the other on, milliseconds since 1970. Between them (from the
# year 2001 to 33658) it is seconds since 1970. Nobody is told to wait 31 years.
EPOCH_FROM_S = 1e9
EPOCH_MS_FROM = 1e12
# Draft 11 rounds `t` down, and nothing tells the drafts apart: a second later there is more by either.
T_ROUNDED_DOWN_S = 1.0
REQUESTS = "requests"
OLDER_PREFIXES = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")
_LEADING_NUMBER = re.compile(r"[ \t]*([0-9]+)")
_DRAFT_7 = re.compile(r"[ \t]*(limit|remaining|reset)[ \t]*=[ \t]*([0-9]+)[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class Policy:
    """What an answer says of one of the server's limits."""

    name: str
    remaining: int | None
    more_in_s: float | None
    quota: int | None
    window_s: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """`retry_after_s` is None when no time is named. `policies` are all that apply, however little is said of them."""

    retry_after_s: float | None
    policies: tuple[Policy, ...]
    is_cached: bool = False

    def named_wait_s(self) -> float | None:
        """How long a refused client is told to wait, by whichever field says so."""
        if self.retry_after_s is not None:
            return self.retry_after_s
        spent = [policy.more_in_s for policy in self.policies if policy.remaining == 0 and policy.more_in_s is not None]
        return max(spent, default=None)

    def refusing(self) -> tuple[Policy, ...]:
        """Which of the policies a refusal speaks of, as far as can be told."""
        spent = tuple(policy for policy in self.policies if policy.remaining == 0)
        said = tuple(policy for policy in self.policies if policy.remaining is not None)
        return spent or said or self.policies


def read_answer(headers: Mapping[str, str], wall_now_s: float) -> Answer:
    """Dates are compared with the answer's own `Date`; only without one with this machine's clock."""
    dated_s = _date_s(headers.get("date", ""))
    age_s = _seconds(headers.get("age", "")) or 0.0
    now_s = wall_now_s if dated_s is None else dated_s + age_s
    if age_s > 0:
        # What a cache kept says nothing of what is left now.
        return Answer(_retry_after_s(headers, now_s), (), is_cached=True)
    policies = _draft_7(headers) or _ietf(headers)
    if all(policy.remaining is None for policy in policies):
        policies = _older(headers, now_s) or policies
    return Answer(_retry_after_s(headers, now_s), policies)


def _retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    for name in ("retry-after", "x-ratelimit-retry-after"):
        text = headers.get(name, "").strip()
        wait_s = _wait_s(text, now_s)
        if wait_s is None and "," in text:
            # The field came twice; who is told two times waits for the later.
            wait_s = max((found for part in text.split(",") if (found := _seconds(part)) is not None), default=None)
        if wait_s is not None:
            return wait_s
    return None


def _wait_s(text: str, now_s: float) -> float | None:
    seconds = _seconds(text)
    if seconds is not None:
        return seconds
    date_s = _date_s(text)
    return None if date_s is None else min(max(0.0, date_s - now_s), SECONDS_CEILING)


def _ietf(headers: Mapping[str, str]) -> tuple[Policy, ...]:
    """Drafts 8 to 11. `pk` tells the counters of one policy apart."""
    declared = {
        (name, parameters.get("pk")): parameters for name, parameters in read_list(headers.get("ratelimit-policy", ""))
    }
    said = {(name, parameters.get("pk")): parameters for name, parameters in read_list(headers.get("ratelimit", ""))}
    return tuple(
        _ietf_policy(key, said.get(key, {}), declared.get(key) or declared.get((key[0], None), {}))
        for key in list(said | declared)[:POLICIES_MAX]
    )


def _ietf_policy(key: tuple[str, str | None], said: dict[str, str], declared: dict[str, str]) -> Policy:
    name, partition = key
    window_s = _seconds(declared.get("w", ""))
    window_s = None if window_s is None or window_s < WINDOW_S_MIN else window_s
    more_in_s = _seconds(said.get("t", ""))
    if more_in_s is not None:
        more_in_s += T_ROUNDED_DOWN_S
        more_in_s = more_in_s if window_s is None else min(more_in_s, window_s)
    remaining, quota = _count(said.get("r", "")), _count(declared.get("q", "")) or None
    if declared.get("qu", said.get("qu", REQUESTS)) not in (REQUESTS, "request"):
        # Bytes, or requests at one time: how many requests they are is not known, only when there is nothing left.
        remaining, quota = remaining and COUNT_CEILING, None
    return Policy(name if partition is None else f"{name};{partition}", remaining, more_in_s, quota, window_s)


def _draft_7(headers: Mapping[str, str]) -> tuple[Policy, ...]:
    """`RateLimit: limit=100, remaining=50, reset=5`."""
    found = [_DRAFT_7.match(part) for part in headers.get("ratelimit", "")[:1_024].split(",")]
    said = {match[1]: match[2] for match in found if match}
    if "remaining" not in said:
        return ()
    return (_unnamed(said.get("limit", ""), said["remaining"], _seconds(said.get("reset", ""))),)


def _older(headers: Mapping[str, str], now_s: float) -> tuple[Policy, ...]:
    for prefix in OLDER_PREFIXES:
        remaining = headers.get(f"{prefix}remaining")
        if remaining is not None and _count(remaining) is not None:
            reset_s = _reset_s(headers.get(f"{prefix}reset", ""), now_s)
            return (_unnamed(headers.get(f"{prefix}limit", ""), remaining, reset_s),)
    return ()


def _unnamed(limit: str, remaining: str, reset_s: float | None) -> Policy:
    """Told apart by its size: limits of one server that differ seldom have the same."""
    quota = _count(limit) or None
    return Policy(f"limit={quota}", _count(remaining), reset_s, quota, None)


def _reset_s(text: str, now_s: float) -> float | None:
    """Seconds from now, seconds or milliseconds since 1970, or a date: servers differ."""
    text = text.strip()
    if not _NUMBER.match(text):
        return _wait_s(text, now_s)
    value = float(text)
    if value >= EPOCH_FROM_S:
        epoch_s = value / 1_000 if value >= EPOCH_MS_FROM else value
        value = epoch_s - now_s
    return min(max(0.0, value), SECONDS_CEILING)


def _seconds(text: str) -> float | None:
    text = text.strip()
    return min(float(text), SECONDS_CEILING) if _NUMBER.match(text) else None


def _count(text: str) -> int | None:
    """The number a field begins with: `100, 100;w=60` is 100."""
    found = _LEADING_NUMBER.match(text)
    if found is None:
        return None
    return int(found[1]) if len(found[1]) <= len(str(COUNT_CEILING)) else COUNT_CEILING


def _date_s(text: str) -> float | None:
    if not text:
        return None
    try:
        date = parsedate_to_datetime(text)
        return (date.replace(tzinfo=UTC) if date.tzinfo is None else date).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
