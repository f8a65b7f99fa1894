"""Where the log ends, for all who follow it in this process: publishers, the HTTP feed, the embedded node, whoever
waits.

One thread reads it once for all of them. It is woken by changes made in this process, by notices of other control
planes (PostgreSQL), and looks by itself every second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from headgate.control.ledger import Ledger
from headgate.control.pace import URGENT_EVERY_S, Pace
from headgate.errors import StorageDown
from headgate.feed.entry import Position

LOOK_EVERY_S = 1.0
_LISTEN_SLICE_S = 0.5
_LISTEN_AGAIN_S = 2.0
_JOIN_S = 10.0


class Head:
    """`position` is what may be told now: see `pace`."""

    def __init__(self, ledger: Ledger, *, log: Any, pace: Pace | None = None) -> None:
        self._ledger = ledger
        self._log = log
        self._listener = ledger.database.listener()
        self._pace = pace or Pace()
        self._told = threading.Condition()
        self._position: Position | None = None
        self._error: str | None = None
        self._read_s = float("-inf")
        self._subscribers: dict[int, Callable[[Position], None]] = {}
        self._serial = 0
        self._dirty = threading.Event()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="headgate-head", daemon=True)]
        if self._listener is not None:
            self._threads.append(threading.Thread(target=self._listen, name="headgate-listen", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._dirty.set()
        with self._told:
            self._told.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_JOIN_S)

    def committed(self, position: Position | None = None) -> None:  # noqa: ARG002
        """Something was committed: look at once."""
        self._dirty.set()

    @property
    def position(self) -> Position | None:
        """None before the database was first read."""
        return self._position

    @property
    def error(self) -> str | None:
        """Why the database cannot be read; None when it can."""
        return self._error

    @property
    def is_stopped(self) -> bool:
        return self._stopping.is_set()

    @property
    def age_s(self) -> float:
        """Since the database last said where the log ends."""
        return time.monotonic() - self._read_s

    def wait_beyond(self, position: Position | None, timeout_s: float) -> Position | None:
        """The position, as soon as it is another than this one, or at the end of the time."""
        with self._told:
            self._told.wait_for(lambda: self._position != position or self._stopping.is_set(), timeout_s)
            return self._position

    def subscribe(self, callback: Callable[[Position], None]) -> Callable[[], None]:
        """Called with each new position, from a thread that must not be held up. Gives what ends it."""
        with self._told:
            self._serial += 1
            number = self._serial
            self._subscribers[number] = callback
        return lambda: self._forget(number)

    def _forget(self, number: int) -> None:
        with self._told:
            self._subscribers.pop(number, None)

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopping.is_set():
            if self._dirty.wait(wait_s):
                # What is committed while we read is read the next time.
                self._dirty.clear()
            wait_s = LOOK_EVERY_S
            found = self._read()
            if found is None:
                continue
            head, urgent = found
            now_s = time.monotonic()
            known = self._position
            if head == known:
                continue
            if known is not None and head < known:
                # The database was restored from an older copy under us. Whoever has read it directly has what we have.
                self._begin_epoch(known)
                continue
            anew = known is None or head.epoch != known.epoch
            due_s = 0.0 if anew else self._pace.wait_s(now_s, urgent=urgent)
            if due_s == 0:
                self._pace.told(now_s)
                self._tell(head)
            # A burst sets `dirty` all the time; it may hold something urgent, which is looked for at its pace.
            pause_s = min(URGENT_EVERY_S, self._pace.every_s)
            pause_s = min(pause_s, due_s) if due_s else pause_s
            self._stopping.wait(pause_s)
            if due_s:
                wait_s = due_s - pause_s

    def _read(self) -> tuple[Position, bool] | None:
        known = self._position
        after = known.version if known is not None else 0
        try:
            head, urgent = self._ledger.head(after)
        except StorageDown as error:
            if self._error is None:
                self._log.error("the database does not answer; nodes go on with what they have", error=str(error))
            self._error = str(error)
            return None
        if self._error is not None:
            self._log.info("the database answers again")
        self._error = None
        self._read_s = time.monotonic()
        return head, urgent > after

    def _begin_epoch(self, known: Position) -> None:
        try:
            begun = self._ledger.begin_epoch(known)
        except StorageDown as error:
            self._error = str(error)
            return
        if begun is not None:
            words = "the database has gone back in time; a new epoch begins, and every node takes all rules anew"
            self._log.error(words, known=str(known), begins_at=str(begun))
            self._dirty.set()

    def _tell(self, head: Position) -> None:
        with self._told:
            self._position = head
            callbacks = list(self._subscribers.values())
            self._told.notify_all()
        for callback in callbacks:
            try:
                callback(head)
            except Exception as error:
                self._log.error("one who follows the head failed", error=repr(error))

    def _listen(self) -> None:
        assert self._listener is not None
        is_told = False
        while not self._stopping.is_set():
            try:
                if self._listener.wait(_LISTEN_SLICE_S):
                    is_told = False
                    self._dirty.set()
            except StorageDown as error:
                if not is_told:
                    self._log.warning("not listening to the database; looking every second", error=str(error))
                is_told = True
                self._stopping.wait(_LISTEN_AGAIN_S)
        self._listener.close()
