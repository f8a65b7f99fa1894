"""Tidying up: what has ended, and what nobody looks at any more. Any number of control planes may do so."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.control.changes import Changes, Wanted
from headgate.control.errors import ChangeError
from headgate.control.heartbeats import FORGOTTEN
from headgate.errors import HeadgateError, StorageDown
from headgate.feed.entry import Kind
from headgate.storage.sql import Database, calls, fleet, outbox
from headgate.storage.sql.publishing import ended_blocks

EVERY_S = 60.0
# Those who look into what just happened still see a block that has ended.
BLOCKS_AFTER = timedelta(hours=1)
BLOCKS_AT_ONCE = 1_000
CALLS_KEPT = timedelta(days=90)
_ROUNDS_MAX = 100
_JOIN_S = 15.0


class Sweep:
    """`BY` is whom the history names."""

    BY = "headgate"

    def __init__(
        self,
        database: Database,
        changes: Changes,
        *,
        log: Any,
        every_s: float = EVERY_S,
        calls_kept: timedelta = CALLS_KEPT,
    ) -> None:
        self._database = database
        self._changes = changes
        self._log = log
        self._every_s = every_s
        self._calls_kept = calls_kept
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-sweep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def once(self, now: datetime | None = None) -> None:
        """Raises StorageDown."""
        now = now or datetime.now(UTC)
        self._lift_ended_blocks(now)
        for _ in range(_ROUNDS_MAX):
            with self._database.aside() as tx:
                pruned = calls.prune(tx, now - self._calls_kept)
            if pruned < calls.PRUNED_AT_ONCE or self._stopping.is_set():
                break
        with self._database.aside() as tx:
            fleet.prune(tx, now - FORGOTTEN)
            outbox.prune(tx)

    def _lift_ended_blocks(self, now: datetime) -> None:
        for _ in range(_ROUNDS_MAX):
            with self._database.read() as tx:
                ended = ended_blocks(tx, now - BLOCKS_AFTER, BLOCKS_AT_ONCE)
            if not ended or self._stopping.is_set():
                return
            wanted = [Wanted(Kind.BLOCK, name, None) for name in ended]
            try:
                self._changes.apply(wanted, by=self.BY, why="expired", verb="sweep")
            except ChangeError as error:
                # Another control plane was quicker, or somebody changed one of them: next time.
                self._log.debug("ended blocks are lifted later", error=str(error))
                return

    def _run(self) -> None:
        # Control planes that were started together do not sweep together.
        while not self._stopping.wait(self._every_s * (0.9 + 0.2 * random.random())):
            try:
                self.once()
            except StorageDown:
                continue
            except HeadgateError as error:
                self._log.error("tidying up failed", error=str(error))
            except Exception as error:
                self._log.error("tidying up failed", error=repr(error))
