"""A node made of a dict: follows a broker as the real one does, with the codec alone."""

from __future__ import annotations

import time
from pathlib import Path

from headgate.errors import BrokerDown, FeedError
from headgate.feed.codec import decode_delta, read_snapshot
from headgate.feed.entry import START, Kind, Position
from headgate.storage.streams import Broker, Deltas, Nothing, TakeSnapshot

Bodies = dict[tuple[Kind, str], str]


class ToyNode:
    def __init__(self, broker: Broker, key: bytes, path: Path) -> None:
        self._broker = broker
        self._key = key
        self._path = path
        self.position = START
        self.bodies: Bodies = {}
        self.snapshots = 0
        self.seen: list[Position] = []

    def take_snapshot(self) -> None:
        position = self._broker.fetch_snapshot(str(self._path))
        with self._path.open("rb") as file:
            bodies = {(entry.kind, entry.id): entry.body or "" for entry in read_snapshot(file, self._key)}
        if position <= self.position:
            raise FeedError("gap", f"the snapshot of {position} is no newer than {self.position}")
        self.bodies, self.position = bodies, position
        self.snapshots += 1

    def apply(self, raw: bytes) -> None:
        delta = decode_delta(self._key, raw)
        assert delta.since.epoch == self.position.epoch
        assert delta.since <= self.position < delta.to, f"{delta.since}..{delta.to} at {self.position}"
        for entry in delta.entries:
            if entry.body is None:
                self.bodies.pop((entry.kind, entry.id), None)
            else:
                self.bodies[entry.kind, entry.id] = entry.body
        self.position = delta.to
        self.seen.append(delta.to)

    def step(self, block_ms: int = 200) -> Deltas | TakeSnapshot | Nothing:
        found = self._broker.read(self.position, block_ms)
        if isinstance(found, Deltas):
            for raw in found.raw:
                self.apply(raw)
        elif isinstance(found, TakeSnapshot):
            self.take_snapshot()
        return found

    def reach(self, position: Position, timeout_s: float = 20.0) -> None:
        """Follows until it is there; whatever is wrong meanwhile is tried again."""
        end_s = time.monotonic() + timeout_s
        error: Exception | None = None
        while self.position < position:
            if time.monotonic() > end_s:
                raise AssertionError(f"still at {self.position}, not at {position}") from error
            try:
                self.step()
            except (BrokerDown, FeedError) as raised:
                error = raised
                time.sleep(0.05)
        assert self.position == position
