"""The record of calls: who changed something, and who was not let in; and which tokens are in use.

An answer never waits for it. Calls wait in a bounded queue; a thread writes them a batch at a time, and keeps trying
while the database is away. What does not fit is counted, and told by a metric. `sweep` forgets them
after 90 days.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping
from datetime import datetime

import structlog

from headgate.errors import ConfigError, StorageDown
from headgate.storage.sql import Database, calls, tokens
from headgate.storage.sql.calls import CallRow

WAITING_MAX = 10_000
REFUSED_MAX = WAITING_MAX // 2
BATCH_MAX = 500
# Calls of one moment are written together.
PAUSE_S = 0.2
RETRY_S = 2.0
STOP_S = 5.0

_log = structlog.get_logger("headgate.control")


class Recorder:
    """`put` and `used` from any thread, without waiting; `stop` writes what waits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: collections.deque[CallRow] = collections.deque()
        self._used: dict[str, datetime] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._writing = False
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def put(self, row: CallRow) -> None:
        with self._changed:
            # Strangers can make as many calls as they like; what was changed must still find room.
            if len(self._waiting) >= (REFUSED_MAX if row.status == 401 else WAITING_MAX):
                self.dropped += 1
                return
            self._waiting.append(row)
            self._wake()

    def used(self, token_id: str, at: datetime) -> None:
        with self._changed:
            if len(self._used) < WAITING_MAX:
                self._used[token_id] = at
                self._wake()

    def flush(self, timeout: float) -> bool:
        """Whether all was written in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._has_work and not self._writing, timeout)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(STOP_S)

    @property
    def _has_work(self) -> bool:
        return bool(self._waiting or self._used)

    def _wake(self) -> None:
        if self._thread is None and not self._stopping:
            self._thread = threading.Thread(target=self._run, name="headgate-calls", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._has_work or self._stopping)
                if self._stopping and not self._has_work:
                    return
                self._changed.wait_for(lambda: self._stopping, PAUSE_S)
                batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
                used, self._used = self._used, {}
                self._writing = True
            done = self._write(batch, used)
            with self._changed:
                self._writing = False
                if not done:
                    self._put_back(batch)
                    if self._stopping:
                        return
                    self._changed.wait_for(lambda: self._stopping, RETRY_S)
                self._changed.notify_all()

    def _put_back(self, batch: list[CallRow]) -> None:
        room = max(0, WAITING_MAX - len(self._waiting))
        self.dropped += max(0, len(batch) - room)
        self._waiting.extendleft(reversed(batch[:room]))

    def _write(self, batch: list[CallRow], used: Mapping[str, datetime]) -> bool:
        try:
            with self._database.aside() as tx:
                calls.add_many(tx, batch)
                for token_id, at in used.items():
                    tokens.mark_used(tx, token_id, at)
        except (StorageDown, ConfigError):
            # It is away, or its tables are still to be made.
            return False
        except Exception as error:
            # A row that cannot be written must not stop all that come after it.
            _log.error("calls_not_recorded", error=type(error).__name__, calls=len(batch))
            self.dropped += len(batch)
        return True
