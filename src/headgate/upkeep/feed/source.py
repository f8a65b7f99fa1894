"""What a node may get its rules from, as one protocol: a broker, the control plane, its database, a file.

A source speaks of what the control plane made and decides nothing: whether something is newer, authentic or worth
taking is for the follower and the engine to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headgate.errors import HeadgateError
from headgate.feed.entry import Position

# One delta of a source. Publishers cut at 4 MiB of entries; whatever is larger comes as a snapshot.
DELTA_BYTES_MAX = 32 * 1024 * 1024
# Room for tens of millions of rules; past that something is wrong with the source.
SNAPSHOT_BYTES_MAX = 16 * 1024 * 1024 * 1024


class SourceError(HeadgateError):
    """A source is away or of no use now; says why, in words for a log, without any password."""


@dataclass(frozen=True, slots=True)
class Deltas:
    """Raw deltas, oldest first; never none of them."""

    raw: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Deltas do not lead from where one is to what is newest."""

    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing newer, as far as the source knows. One that was not asked since the last time proves nothing."""

    is_proof: bool = True


Answer = Deltas | TakeSnapshot | Nothing


@dataclass(frozen=True, slots=True)
class Pulse:
    """The control plane said, at `at_us` of its own clock, that `position` is the newest."""

    position: Position
    at_us: int


class Source(Protocol):
    """Every call is bounded in time and raises SourceError; all but `close` may be called by several threads, `changes`
    and `snapshot` by one."""

    @property
    def name(self) -> str:
        """As it may be shown."""

    @property
    def proves(self) -> bool:
        """Whether an answer of `changes` comes from where changes are made, and so proves what is newest. Of one that
        only passes on what it was given, `pulse` tells."""

    @property
    def wait_s(self) -> float:
        """How long one `changes` may wait for something new."""

    @property
    def beat_least_s(self) -> float:
        """A burst of changes makes heartbeats no closer together than this."""

    def connect(self) -> None:
        """One cheap round trip: would it answer?"""

    def snapshot(self, to_path: str) -> Position:
        """Written to that path; its position as its head says, nothing of it verified yet."""

    def changes(self, after: Position, wait_s: float) -> Answer:
        """What came after `after`, waited for."""

    def pulse(self) -> Pulse | None:
        """The last one, authentic; None where there is none or answers are proof enough."""

    def beat(self, heartbeat: str) -> None:
        """Tell the control plane how this node is (JSON)."""

    def close(self) -> None:
        """Ends what is under way in other threads, soon."""
