"""The API's own limits, as rules that Headgate enforces on itself.

Writing is cheap to ask for and dear to do, so it has less than reading. Emergency routes have their own share: whoever
has just used up the other one in a script must still be able to block an attacker. Uploads of whole rule sets are
bounded in number instead (`turns`), and the feed is for nodes, which know their own pace.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from typing import Any

from headgate.control.api.problems import Problem
from headgate.limiter import Limiter

_WRITES = ["POST", "PUT", "PATCH", "DELETE"]
_EMERGENCY = ["/api/v1/blocks", "/api/v1/blocks/*", "/api/v1/switches/*"]
_KEYS_MAX = 100_000

API_RULES: Mapping[str, Any] = {
    "rules": [
        {"name": "reads", "match": {"method": "GET"}, "by": "api_key", "limit": "600/minute"},
        {"name": "writes", "match": {"method": _WRITES}, "by": "api_key", "limit": "300/minute burst 100"},
        {
            "name": "emergency",
            "match": {"method": _WRITES, "endpoint": _EMERGENCY},
            "by": "api_key",
            "limit": "3000/minute burst 500",
        },
        {"name": "uploads", "match": {"endpoint": "/api/v1/apply"}, "action": "allow"},
        {
            "name": "failed-authorisation",
            "match": {"descriptors": {"authorisation": "failed"}},
            "by": "ip",
            "limit": "10/minute",
        },
    ]
}

_NO_ADDRESS = "0.0.0.0"
_FAILED = {"authorisation": "failed"}


class ApiLimits:
    """Counts calls in this process. Without rules, nothing is limited."""

    def __init__(self, rules: Mapping[str, Any] | None = API_RULES) -> None:
        self._limiter = None if rules is None else Limiter(rules=dict(rules), max_keys=_KEYS_MAX)

    def check(self, token_id: str, method: str, path: str) -> None:
        """Raises Problem (429) when this token has had its share."""
        if self._limiter is None:
            return
        method = "GET" if method == "HEAD" else method
        decision = self._limiter.check(api_key=token_id, method=method, path=path)
        if not decision.allowed:
            raise _too_many("this token has made too many calls", decision.retry_after, decision.rule)

    def check_address(self, address: str | None) -> None:
        """Raises Problem (429) when too many calls from this address were refused already."""
        if self._limiter is None:
            return
        decision = self._limiter.peek(ip=_ip(address), descriptors=_FAILED)
        if not decision.allowed:
            raise _too_many("too many calls from this address had no good token", decision.retry_after, decision.rule)

    def count_failure(self, address: str | None) -> None:
        if self._limiter is not None:
            self._limiter.check(ip=_ip(address), descriptors=_FAILED)


def _ip(address: str | None) -> str:
    """Callers without an address (a Unix socket) share one counter."""
    try:
        return str(ipaddress.ip_address(address or ""))
    except ValueError:
        return _NO_ADDRESS


def _too_many(detail: str, retry_after_s: float | None, rule: str | None) -> Problem:
    wait_s = max(1, math.ceil(retry_after_s)) if retry_after_s is not None else 60
    named = f" (limit `{rule}`)" if rule else ""
    return Problem(429, f"{detail}{named}; try again in {wait_s} s", headers={"Retry-After": str(wait_s)})
