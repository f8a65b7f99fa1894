"""One region's publisher: a thread that keeps the region's broker leading to the head of the log.

What the broker holds is the truth of how far the region has been told; there is no cursor that could disagree with
it. Any number of control planes may publish to one broker: each step says what it takes for the broker's state, and
does nothing when it is another.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headgate.control.coverage import Covered, follow, snapshot_is_due
from headgate.control.epochs import EpochContest
from headgate.control.sharing import RegionStatus, Shared
from headgate.errors import BrokerDown, StorageDown
from headgate.feed.entry import START, Position
from headgate.storage.streams import Broker, BrokerState, Item, Upload

__all__ = ["Heard", "Region", "RegionStatus", "Shared"]

AUDIT_EVERY_S = 1.0
PULSE_EVERY_S = 5.0
BACK_OFF_FIRST_S = 0.1
BACK_OFF_MAX_S = 5.0
# Somebody waits until nodes have a change: how often their heartbeats are looked at then.
HURRY_S = 0.06
TRIES_MAX = 5
ITEMS_A_READ = 16
PARTS_AN_AUDIT = 4
_JOIN_S = 15.0

Heard = Callable[[str, dict[str, Any]], Iterable[str]]


class Region:
    """`heard` is given the region's heartbeats every second, oftener while `hurried()`, and names those to forget."""

    def __init__(self, name: str, broker: Broker, shared: Shared, *, heard: Heard, hurried: Callable[[], bool]) -> None:
        self.name = name
        self.broker = broker
        self._shared = shared
        self._log = shared.log.bind(region=name) if hasattr(shared.log, "bind") else shared.log
        self._heard = heard
        self._hurried = hurried
        self._position: Position | None = None
        self._error: str | None = None
        self._noted: tuple[Position, str | None] | None = None
        self._covered: Covered | None = None
        self._upload: Upload | None = None
        self._part = 0
        self._pulsed_s = float("-inf")
        self._heard_s = float("-inf")
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"headgate-region-{name}", daemon=True)

    @property
    def status(self) -> RegionStatus:
        return RegionStatus(self.name, self.broker.where, self._position, self._error)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        self.broker.close()

    def _run(self) -> None:
        back_off_s = BACK_OFF_FIRST_S
        while not self._stopping.is_set():
            try:
                self._serve()
            except EpochContest as error:
                back_off_s = self._failed(str(error), back_off_s)
            except StorageDown:
                # The head has logged it; what is published already stays.
                self._stopping.wait(AUDIT_EVERY_S)
                continue
            except BrokerDown as error:
                back_off_s = self._failed(str(error), back_off_s)
            except Exception as error:
                # Whatever it is, the region must not be forgotten.
                back_off_s = self._failed(f"publishing failed: {error!r}"[:300], back_off_s)
            finally:
                self._drop_upload()
                self._covered = None
            self._stopping.wait(back_off_s)

    def _failed(self, error: str, back_off_s: float) -> float:
        """How long to leave the region alone: longer every time, from the first failure after a success on."""
        is_first = self._error is None
        if error != self._error:
            self._log.error("a region cannot be told of changes; trying again", error=error)
        self._error = error
        self._note()
        return BACK_OFF_FIRST_S if is_first else min(back_off_s * 2, BACK_OFF_MAX_S)

    def _serve(self) -> None:
        """Until something fails."""
        audited_s = float("-inf")
        while not self._stopping.is_set():
            head = self._shared.head.position
            if head is None:
                self._wait(AUDIT_EVERY_S)
                continue
            now_s = time.monotonic()
            if self._covered is None or self._covered.tail.epoch != head.epoch or now_s - audited_s >= AUDIT_EVERY_S:
                audited_s = now_s
                head = max(head, self._audit(head))
            assert self._covered is not None
            if self._covered.tail < head:
                self._publish(head)
            elif self._upload is not None:
                self._go_on_uploading()
            self._well(head)
            self._collect(now_s)
            if self._covered is not None and self._upload is None and self._covered.tail >= head:
                self._wait(HURRY_S if self._hurried() else AUDIT_EVERY_S - (time.monotonic() - audited_s))

    def _wait(self, timeout_s: float) -> None:
        self._wake.wait(max(0.0, timeout_s))
        self._wake.clear()

    def _audit(self, head: Position) -> Position:
        """Makes sure that the broker's snapshot and stream are whole and of the head's epoch, mending what is not.
        Gives the head, which may have moved to a new epoch."""
        for _ in range(TRIES_MAX):
            state = self.broker.state()
            covered = self._verify(state)
            newest = max(state.newest or START, self._end_of(state, covered))
            if newest > head:
                head = self._shared.epochs.settle(newest)
            stream_is_good = covered is not None and covered.tail.epoch == head.epoch
            snapshot_is_good = self._snapshot_is_good(state, head)
            if stream_is_good and snapshot_is_good:
                self._covered = covered
                self._keep_snapshot_fresh(head)
                return head
            self._mend(state, head, stream_is_good=stream_is_good, snapshot_is_good=snapshot_is_good)
        raise BrokerDown(f"the broker at {self.broker.where}: what is put there does not stay")

    def _verify(self, state: BrokerState) -> Covered | None:
        """What the stream covers; None when it does not lead on from the snapshot. What was verified is not read
        again."""
        pointer, stream, known = state.pointer, state.stream, self._covered
        if pointer is None or stream.kind == "other" or min(stream.last, stream.deleted, stream.first) < 0:
            return None
        if known is not None and known.looks_same(state):
            return known
        if known is not None and known.only_grew(state):
            at, count, size = known.tail, known.items, known.delta_bytes
        else:
            at, count, size = pointer.position, 0, 0
        # Whatever was taken out leaves a hole that the chain breaks at, or ends before the stream does.
        found = follow(at, self._items_after(at.version))
        if found is None:
            return None
        tail = found[0]
        if tail.version < stream.last:
            return None
        if found[1] == 0 and stream.length and tail == pointer.position and stream.last < tail.version:
            # The snapshot is ahead of the stream: the next delta should still follow the last one.
            last = self.broker.last_item()
            if last is None or last.to.epoch != tail.epoch:
                return None
            tail = last.to
        return Covered(
            pointer, tail, stream.last_id, stream.added, stream.first, stream.deleted, count + found[1], size + found[2]
        )

    def _end_of(self, state: BrokerState, covered: Covered | None) -> Position:
        """The last authentic position of the stream, whole or not."""
        if covered is not None:
            return covered.tail
        last = self.broker.last_item() if state.stream.kind == "stream" else None
        return START if last is None else last.to

    def _items_after(self, version: int) -> Iterator[Item | None]:
        while True:
            items = self.broker.items_after(version, ITEMS_A_READ)
            yield from items
            if len(items) < ITEMS_A_READ or items[-1] is None:
                return
            version = items[-1].to.version

    def _snapshot_is_good(self, state: BrokerState, head: Position) -> bool:
        """Of this epoch, all its parts exist, and a few are what they were; in time each has its turn."""
        pointer = state.pointer
        if pointer is None or not state.parts_present or pointer.position.epoch != head.epoch:
            return False
        chosen = {(self._part + n) % pointer.parts for n in range(min(PARTS_AN_AUDIT, pointer.parts))}
        self._part += len(chosen)
        return self.broker.parts_are_intact(pointer, sorted(chosen))

    def _mend(self, state: BrokerState, head: Position, *, stream_is_good: bool, snapshot_is_good: bool) -> None:
        """One step towards a broker that is whole; whether it was enough shows at the next look."""
        self._covered = None
        self._drop_upload()
        if state.stream.kind != "none" or state.pointer_raw:
            what = "its stream" if snapshot_is_good else "its snapshot"
            self._log.warning("a broker is not as it was left; publishing anew", what=what, where=self.broker.where)
        if not snapshot_is_good:
            made = self._shared.snapshots.take(at_least=head)
            if self.broker.publish_snapshot(made.path, state, made.at_us) is None:
                return
        if not stream_is_good:
            self.broker.reset_stream(state.stream)
        self._pulsed_s = float("-inf")

    def _publish(self, head: Position) -> None:
        """One delta, or, when there is too much for one, a snapshot and a marker."""
        covered = self._covered
        assert covered is not None
        raw = self._shared.cuts.delta(covered.tail, head)
        if raw is not None:
            done = self.broker.publish_delta(raw, after_id=covered.last_id)
            self._covered = covered.appended(head, raw) if done else None
            return
        made = self._shared.snapshots.take(at_least=head)
        self._covered = None
        self._drop_upload()
        if self.broker.publish_snapshot(made.path, self.broker.state(), made.at_us) is not None:
            self.broker.publish_marker(covered.tail, made.position, after_id=covered.last_id)

    def _keep_snapshot_fresh(self, head: Position) -> None:
        covered = self._covered
        if covered is None or self._upload is not None or not snapshot_is_due(covered, head, time.time_ns() // 1000):
            return
        newest = self._shared.snapshots.newest
        if newest is not None and newest.position > covered.pointer.position and newest.position.epoch == head.epoch:
            with contextlib.suppress(FileNotFoundError):
                self._upload = self.broker.upload(newest.path, newest.at_us)
        else:
            self._shared.snapshots.want()

    def _go_on_uploading(self) -> None:
        upload = self._upload
        assert upload is not None
        if not upload.is_whole:
            upload.step()
            return
        state = self.broker.state()
        if state.pointer is not None and state.pointer.position < upload.position:
            self.broker.point_to(upload, state)
        self._drop_upload()
        self._covered = None

    def _drop_upload(self) -> None:
        if self._upload is not None:
            self._upload.close()
            self._upload = None

    def _well(self, head: Position) -> None:
        if self._error is not None:
            self._log.info("a region is told of changes again", where=self.broker.where)
        self._error = None
        covered = self._covered
        if covered is None:
            return
        self._position = covered.tail
        now_s = time.monotonic()
        # A pulse says that this is the newest: nobody can say so who has not heard from the database.
        fresh = self._shared.head.age_s < PULSE_EVERY_S
        if covered.tail >= head and fresh and now_s - self._pulsed_s >= PULSE_EVERY_S:
            self._pulsed_s = now_s
            self.broker.pulse(covered.tail, time.time_ns() // 1000)

    def _collect(self, now_s: float) -> None:
        every_s = HURRY_S if self._hurried() else AUDIT_EVERY_S
        if now_s - self._heard_s >= every_s:
            self._heard_s = now_s
            self.broker.forget_nodes(self._heard(self.name, self.broker.nodes()))
            if not self._hurried():
                self._note()

    def _note(self) -> None:
        """In the database, for whoever asks any control plane; only what is new."""
        noted = (self._position or START, self._error)
        if noted == self._noted:
            return
        with contextlib.suppress(StorageDown):
            self._shared.ledger.note(self.name, *noted)
            self._noted = noted
