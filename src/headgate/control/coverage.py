"""Whether a broker's stream leads on from its snapshot, and where to. Pure.

What a publisher once verified it need not read again: as long as the stream looks the same, nobody has touched it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headgate.feed.entry import Position
from headgate.storage.streams import BrokerState, Item, Pointer

# Beyond any of these since the last one, a snapshot is due: those who have to catch up are quicker with it.
CHANGES_MAX = 10_000
DELTA_BYTES_MAX = 16 * 1024 * 1024
ITEMS_MAX = 4_000
AGE_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class Covered:
    """The stream as it was verified: it leads from the snapshot to `tail`."""

    pointer: Pointer
    tail: Position
    last_id: str
    added: int
    first: int
    deleted: int
    items: int = 0
    delta_bytes: int = 0

    def looks_same(self, state: BrokerState) -> bool:
        return self.only_grew(state) and (state.stream.added, state.stream.last_id) == (self.added, self.last_id)

    def only_grew(self, state: BrokerState) -> bool:
        """Nothing that was verified has been taken away; more may have been added."""
        stream = state.stream
        return (
            state.pointer == self.pointer
            and stream.kind == ("stream" if self.added else stream.kind)
            and (stream.first == self.first or self.added == 0)
            and stream.deleted == self.deleted
            and stream.added >= self.added
        )

    def appended(self, to: Position, raw: bytes) -> Covered:
        """After our own delta."""
        return replace(
            self,
            tail=to,
            last_id=f"{to.version}-0",
            added=self.added + 1,
            first=self.first or to.version,
            items=self.items + 1,
            delta_bytes=self.delta_bytes + len(raw),
        )


def follow(at: Position, items: Iterable[Item | None]) -> tuple[Position, int, int] | None:
    """Where a chain of deltas ends that begins at `at`, how many there are, and their bytes. None when it breaks:
    something forged, something missing, another epoch."""
    count = size = 0
    for item in items:
        if item is None or item.to.epoch != at.epoch or item.since > at:
            return None
        at = max(at, item.to)
        count += 1
        size += len(item.raw or b"")
    return at, count, size


def snapshot_is_due(covered: Covered, head: Position, now_us: int) -> bool:
    behind = head.version - covered.pointer.position.version
    aged_s = (now_us - covered.pointer.at_us) / 1e6
    return (
        behind > CHANGES_MAX
        or covered.delta_bytes > DELTA_BYTES_MAX
        or covered.items > ITEMS_MAX
        or (behind > 0 and aged_s > AGE_MAX_S)
    )
