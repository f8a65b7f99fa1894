"""A feed followed inside a program: its limiter takes the control plane's rules as a node does."""

from __future__ import annotations

import logging
import secrets
import socket
import weakref
from dataclasses import dataclass, field

from headgate.errors import HeadgateError
from headgate.limiter import Limiter
from headgate.upkeep.feed.follower import Follower
from headgate.upkeep.feed.urls import make_sources

_logger = logging.getLogger("headgate")


@dataclass(frozen=True, slots=True)
class Feed:
    """Where rules come from, and how. `key` is the feed key of the control plane."""

    urls: str
    key: bytes = field(repr=False)
    snapshot: str | None = None
    poll_s: float = 30.0
    node_id: str | None = None
    region: str | None = None

    def check(self) -> None:
        """Raises ConfigError for what can never work."""
        for source in make_sources(self.urls, key=self.key, poll_s=self.poll_s):
            source.close()


class FollowedFeed:
    """One process's. It must not be what keeps the limiter alive."""

    def __init__(self, limiter: Limiter, feed: Feed) -> None:
        self._follower = Follower(
            weakref.proxy(limiter),
            make_sources(feed.urls, key=feed.key, poll_s=feed.poll_s),
            key=feed.key,
            snapshot_path=feed.snapshot,
            node_id=feed.node_id or f"{socket.gethostname()}-{secrets.token_hex(3)}",
            region=feed.region,
            log=_Log(),
        )

    def start(self, timeout_s: float) -> None:
        """Waits for the first rules, at most so long. Without any the program goes on, and what no rule applies to is
        decided by `no_rule`; they are enforced as soon as they come."""
        try:
            self._follower.start()
            self._follower.first(timeout_s)
        except HeadgateError as error:
            _logger.error("no rules have come from the feed: %s", error)

    def stop(self) -> None:
        self._follower.stop()


class _Log:
    """Events with details, as lines of the program's own log."""

    def info(self, event: str, **details: object) -> None:
        self._say(logging.INFO, event, details)

    def warning(self, event: str, **details: object) -> None:
        self._say(logging.WARNING, event, details)

    def error(self, event: str, **details: object) -> None:
        self._say(logging.ERROR, event, details)

    def _say(self, level: int, event: str, details: dict[str, object]) -> None:
        _logger.log(level, "%s (%s)", event, ", ".join(f"{name}: {value}" for name, value in details.items()))
