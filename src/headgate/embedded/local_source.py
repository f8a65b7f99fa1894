"""The control plane of the same process, as a source of rules: no network in between."""

from __future__ import annotations

import json
import shutil
import threading

from headgate.control.local_feed import Gap
from headgate.control.plane import ControlPlane
from headgate.errors import StorageDown
from headgate.feed.entry import Position
from headgate.upkeep.feed.source import Answer, Deltas, Nothing, Pulse, SourceError, TakeSnapshot

# A word of the database that is older proves nothing.
FRESH_S = 5.0


class LocalSource:
    name = "the control plane in this process"
    proves = True
    wait_s = 5.0
    beat_least_s = 0.1

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._moved = threading.Event()
        self._unsubscribe = plane.feed.subscribe(lambda _: self._moved.set())

    def connect(self) -> None:
        self._known()

    def snapshot(self, to_path: str) -> Position:
        try:
            file, snapshot = self._plane.feed.open_snapshot()
        except StorageDown as error:
            raise SourceError(str(error)) from None
        with file, open(to_path, "wb") as copy:
            shutil.copyfileobj(file, copy)
        return snapshot.position

    def changes(self, after: Position, wait_s: float) -> Answer:
        try:
            self._moved.clear()
            raw = self._plane.feed.deltas(after, 0.0)
            if raw is None and self._moved.wait(wait_s):
                raw = self._plane.feed.deltas(after, 0.0)
        except StorageDown as error:
            raise SourceError(str(error)) from None
        if isinstance(raw, Gap):
            return TakeSnapshot(raw.reason)
        if raw is not None:
            return Deltas((raw,))
        return Nothing(is_proof=self._plane.feed.age_s < FRESH_S)

    def pulse(self) -> Pulse | None:
        return None

    def beat(self, heartbeat: str) -> None:
        self._plane.fleet.beat(json.loads(heartbeat))

    def close(self) -> None:
        self._unsubscribe()
        self._moved.set()

    def _known(self) -> None:
        if self._plane.feed.position is None:
            raise SourceError("has not read its database yet")
