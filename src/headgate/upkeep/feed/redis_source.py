"""A region's broker: a Redis or Valkey that the control plane publishes to."""

from __future__ import annotations

import json

from headgate.errors import BrokerDown, FeedError
from headgate.feed.entry import Position
from headgate.storage import streams
from headgate.upkeep.feed.source import Answer, Deltas, Nothing, Pulse, SourceError, TakeSnapshot

WAIT_S = 5.0


class RedisSource:
    """Reading blocks at the server: a change is here as soon as it is there."""

    proves = False
    wait_s = WAIT_S
    # In a burst heartbeats would cost more than the changes.
    beat_least_s = 0.25

    def __init__(self, url: str, *, key: bytes, prefix: str = streams.PREFIX) -> None:
        self._broker = streams.Broker(url, key=key, prefix=prefix)

    @property
    def name(self) -> str:
        return self._broker.where

    def connect(self) -> None:
        self.pulse()

    def snapshot(self, to_path: str) -> Position:
        try:
            return self._broker.fetch_snapshot(to_path)
        except (BrokerDown, FeedError) as error:
            raise SourceError(str(error)) from None

    def changes(self, after: Position, wait_s: float) -> Answer:
        try:
            answer = self._broker.read(after, int(wait_s * 1000))
        except BrokerDown as error:
            raise SourceError(str(error)) from None
        if isinstance(answer, streams.Deltas):
            return Deltas(answer.raw)
        if isinstance(answer, streams.TakeSnapshot):
            return TakeSnapshot(answer.reason)
        return Nothing()

    def pulse(self) -> Pulse | None:
        try:
            pulse = self._broker.last_pulse()
        except BrokerDown as error:
            raise SourceError(str(error)) from None
        return None if pulse is None else Pulse(pulse.position, pulse.at_us)

    def beat(self, heartbeat: str) -> None:
        said = json.loads(heartbeat)
        try:
            self._broker.beat(said["id"], said)
        except (BrokerDown, ValueError) as error:
            raise SourceError(str(error)) from None

    def close(self) -> None:
        self._broker.close()
