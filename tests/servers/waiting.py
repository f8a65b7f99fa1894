"""Waiting for something to become true, never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import redis

T = TypeVar("T")

POLL_S = 0.02


class NotInTime(AssertionError):
    """What was waited for did not come; the message says what it was and how things stood."""


def wait_for(what: str, look: Callable[[], T | None], timeout_s: float, describe: Callable[[], str] = lambda: "") -> T:
    """The first true answer of `look`. A connection's or a server's error while looking counts as not yet."""
    end_s = time.monotonic() + timeout_s
    while True:
        error: Exception | None = None
        try:
            found = look()
            if found:
                return found
        except (OSError, redis.RedisError) as raised:
            error = raised
        if time.monotonic() > end_s:
            raise NotInTime(f"not within {timeout_s:g} s: {what}\n{describe()}") from error
        time.sleep(POLL_S)
