"""How patient a client is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from headgate.errors import ConfigError

IDEMPOTENT_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "QUERY", "TRACE"})
REFUSAL_STATUSES = frozenset({429, 503})
ATTEMPTS_MAX = 100
ORIGINS_MAX = 100_000
SECONDS_MAX = 86_400.0 * 366
BUDGET_MAX = 1_000_000.0

_METHOD = re.compile(r"[A-Za-z][A-Za-z-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """What the transports and the adapter take. Raises `ConfigError`, also a ValueError, when anything is wrong.

    attempts_max       how often one request is sent, the first time included
    wait_max_s         the longest single wait; an answer that asks for more is handed to the caller at once
    total_wait_max_s   the longest all waits of one request may take together
    unnamed_wait_s     the wait after a 429 that names no time
    jitter             adds up to this part of a wait, so that clients do not return together; it never shortens one
    methods            sent again when refused; any other only with an `Idempotency-Key` header
    statuses           what counts as a refusal; all but 429 only with a `Retry-After`
    budget_part        retries earned by each request, shared by all requests of a transport
    budget_per_s       retries earned by each second that passes
    budget_max         retries that can be saved up; also what there is at the start
    pace               hold requests back before a limit is hit, and while another request waits
    pace_below         with less than this part of a quota left, requests are spread; 0: only held when nothing is left
    origins_max        servers remembered; the least recently used is forgotten first
    """

    attempts_max: int = 5
    wait_max_s: float = 60.0
    total_wait_max_s: float = 120.0
    unnamed_wait_s: float = 5.0
    jitter: float = 0.1
    methods: Iterable[str] = IDEMPOTENT_METHODS
    statuses: Iterable[int] = REFUSAL_STATUSES
    budget_part: float = 0.1
    budget_per_s: float = 1.0
    budget_max: float = 50.0
    pace: bool = True
    pace_below: float = 0.1
    origins_max: int = 256

    def __post_init__(self) -> None:
        _whole("attempts_max", self.attempts_max, 1, ATTEMPTS_MAX)
        _whole("origins_max", self.origins_max, 1, ORIGINS_MAX)
        for name in ("wait_max_s", "total_wait_max_s", "unnamed_wait_s"):
            _number(name, getattr(self, name), SECONDS_MAX)
        for name in ("jitter", "budget_part", "pace_below"):
            _number(name, getattr(self, name), 1.0)
        for name in ("budget_per_s", "budget_max"):
            _number(name, getattr(self, name), BUDGET_MAX)
        if not isinstance(self.pace, bool):
            raise ConfigError(f"pace: expected True or False, not {self.pace!r}")
        object.__setattr__(self, "methods", _methods(self.methods))
        object.__setattr__(self, "statuses", _statuses(self.statuses))


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name}: expected a whole number from {least} to {most}, not {value!r}")


def _number(name: str, value: object, most: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value <= most:  # type: ignore[operator]
        raise ConfigError(f"{name}: expected a number from 0 to {most:g}, not {value!r}")


def _methods(values: Iterable[str]) -> frozenset[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(f"methods: expected several, as in {{'GET', 'POST'}}, not {values!r}")
    found = list(values)
    for value in found:
        if not isinstance(value, str) or not _METHOD.match(value):
            raise ConfigError(f"methods: expected names such as 'POST', not {value!r}")
    return frozenset(value.upper() for value in found)


def _statuses(values: Iterable[int]) -> frozenset[int]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigError(f"statuses: expected several, as in {{429, 503}}, not {values!r}")
    found = list(values)
    for value in found:
        if not isinstance(value, int) or isinstance(value, bool) or not 400 <= value <= 599:
            raise ConfigError(f"statuses: expected whole numbers from 400 to 599, not {value!r}")
    return frozenset(found)
