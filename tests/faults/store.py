"""What a limiter says of its store, and how long its breaker may take to notice that the store is back."""

from __future__ import annotations

import json
from typing import Any

from headgate import Limiter
from tests.servers.waiting import wait_for

BREAKER_TIMEOUT_S = 20
PROBE_AFTER_MIN_S = 0.1
# A probe against a server that accepts and says nothing is given up after this long.
PROBE_TIMEOUT_S = 1.0
# On a busy machine a probe's own PING may miss its few milliseconds; the next wait is then twice as long.
PROBE_MARGIN = 3


def status(limiter: Limiter) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(limiter.store_status())
    return said


def kinds(limiter: Limiter) -> list[str]:
    """Of the events that are remembered, in order."""
    return [event["kind"] for event in status(limiter)["events"]]


def details(limiter: Limiter, kind: str) -> list[str]:
    return [event["detail"] for event in status(limiter)["events"] if event["kind"] == kind]


def breakers(limiter: Limiter) -> dict[str, str]:
    return {shard["name"]: shard["breaker"] for shard in status(limiter)["shards"]}


def wait_breaker(limiter: Limiter, state: str) -> None:
    """Until the only shard's breaker, or every shard's, is so."""
    wait_for(
        f"the breaker is {state}",
        lambda: set(breakers(limiter).values()) == {state},
        BREAKER_TIMEOUT_S,
        limiter.store_status,
    )


def probe_bound_s(outage_s: float) -> float:
    """Waits double from 100 ms, so none is longer than all before it together (SEMANTICS 5.3); then the probe."""
    return (outage_s + PROBE_AFTER_MIN_S + PROBE_TIMEOUT_S) * PROBE_MARGIN
