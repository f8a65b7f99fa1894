"""A follower under test: with a log that can be asked, stopped at the end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headgate.feed.entry import Kind, Position
from headgate.upkeep.feed import Follower, Source, make_sources
from tests.feed.toy_control import KEY, ToyControl
from tests.feed.toy_limiter import ToyLimiter
from tests.servers.waiting import wait_for

# Twenty times what it takes, or more.
SOON_S = 20.0


class Log:
    """Remembers what was said; any level."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, dict[str, Any]]] = []
        self._lock = threading.Lock()

    def __getattr__(self, level: str) -> Any:
        def say(event: str, **details: Any) -> None:
            with self._lock:
                self.said.append((level, event, details))

        return say

    def has(self, level: str, words: str) -> bool:
        return any(said == level and words in event for said, event, _ in self.said)

    def __str__(self) -> str:
        return "\n".join(f"{level} {event} {details}" for level, event, details in self.said)


class Following:
    def __init__(
        self,
        sources: str | Sequence[Source],
        disk: Path | None = None,
        key: bytes = KEY,
        limiter: Any = None,
        **options: Any,
    ) -> None:
        self.limiter = ToyLimiter() if limiter is None else limiter
        self.log = Log()
        made = make_sources(sources, key=key, poll_s=0.2) if isinstance(sources, str) else sources
        path = None if disk is None else str(disk)
        given: dict[str, Any] = {"node_id": "n1", "region": "r1", "log": self.log, **options}
        self.follower = Follower(self.limiter, made, key=key, snapshot_path=path, **given)

    @property
    def position(self) -> Position:
        return self.follower.status().position

    def reaches(self, position: Position) -> None:
        wait_for(f"position {position}", lambda: self.position == position, SOON_S, self.describe)

    def has_what(self, control: ToyControl) -> None:
        """The same rules, not just the same number."""
        self.reaches(control.position)
        assert self.limiter.bodies == control.bodies

    def uses(self, words: str) -> None:
        def look() -> bool:
            source = self.follower.status().source
            return source is not None and words in source

        wait_for(f"following {words}", look, SOON_S, self.describe)

    def rules(self) -> set[str]:
        return {name for kind, name in self.limiter.bodies if kind is Kind.RULE}

    def describe(self) -> str:
        return f"{self.follower.status()}\n{self.log}"


@contextlib.contextmanager
def following(*words: Any, **options: Any) -> Iterator[Following]:
    """Started, and with rules."""
    made = Following(*words, **options)
    made.follower.start()
    try:
        made.follower.first(SOON_S)
        yield made
    finally:
        made.follower.stop()
