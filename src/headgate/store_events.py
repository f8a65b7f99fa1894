"""What happened to the store, in the log of the program that uses it. Each event is logged once."""

from __future__ import annotations

import json
import logging

BAD_EVENTS = frozenset({"breaker_opened", "shard_lost", "warning"})
_logger = logging.getLogger("headgate")


def log(events: str) -> None:
    """`events` is a JSON list, as `Engine.store_status` lists them."""
    for event in json.loads(events):
        level = logging.WARNING if event["kind"] in BAD_EVENTS else logging.INFO
        _logger.log(level, "store: %s", describe(event))


def describe(event: dict[str, str]) -> str:
    words = event["kind"].replace("_", " ")
    about = ": ".join(part for part in (event["shard"], event["detail"]) if part)
    return f"{words} ({about})" if about else words
