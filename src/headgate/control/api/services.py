"""What the API stands on. The process that starts it fills this in; the API itself knows no globals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from headgate.control.api.limits import API_RULES
from headgate.control.changes import Changes
from headgate.feed import Position
from headgate.storage.sql import Database


class FleetView(Protocol):
    """Which nodes there are, and what they enforce."""

    def status(self) -> Mapping[str, Any]: ...
    def wait(self, position: Position, timeout: float) -> Mapping[str, Any]: ...
    def beat(self, heartbeat: Mapping[str, Any]) -> None: ...


class FeedSource(Protocol):
    """Deltas and snapshots for nodes that ask over HTTP."""

    @property
    def position(self) -> Position | None: ...
    @property
    def age_s(self) -> float: ...
    def subscribe(self, callback: Callable[[Position], None]) -> Callable[[], None]: ...
    def deltas(self, since: Position, wait_s: float) -> object: ...
    def open_snapshot(self) -> tuple[BinaryIO, Any]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """`limits` are the rules of the API's own limiter; None limits nothing. Without a `feed_key`, no HTTP feed."""

    database: Database
    changes: Changes
    fleet: FleetView | None = None
    feed: FeedSource | None = None
    feed_key: bytes | None = field(default=None, repr=False)
    limits: Mapping[str, Any] | None = field(default_factory=lambda: API_RULES, repr=False)
    # Metrics and health on the API's own address: for a control plane that is a process of its own.
    own_health: bool = True
