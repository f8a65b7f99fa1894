"""Noticing that the database has gone back in time: somebody holds a position that its log has not reached.

It was restored from an older copy, or replaced. Nodes hold versions that the log will give out again for other
changes, so it begins a new epoch, which every node takes for newer than all it has.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from headgate.control.head import Head
from headgate.control.ledger import Ledger
from headgate.errors import StorageDown
from headgate.feed.entry import Position

# Two control planes with databases of their own that publish to one broker would go on like this for ever.
EVERY_S = 10.0


class Epochs:
    def __init__(self, ledger: Ledger, head: Head, *, log: Any) -> None:
        self._ledger = ledger
        self._head = head
        self._log = log
        self._lock = threading.Lock()
        self._begun_s = float("-inf")

    def settle(self, seen: Position) -> Position:
        """Where the log ends, which is at `seen`, an authentic position, or after it. Raises StorageDown, and
        EpochContest."""
        head, _ = self._ledger.head()
        if head >= seen:
            return head
        with self._lock:
            if time.monotonic() - self._begun_s < EVERY_S:
                raise EpochContest(
                    f"{seen} was published and the log ends at {head}, again: does another control plane with a "
                    "database of its own publish to the same broker under the same prefix?"
                )
            begun = self._ledger.begin_epoch(seen)
            if begun is None:
                return self._ledger.head()[0]
            self._begun_s = time.monotonic()
        self._log.error(
            "the database has gone back in time; a new epoch begins, and every node takes all rules anew",
            published=str(seen),
            log_ends_at=str(head),
            begins_at=str(begun),
        )
        self._head.committed()
        return begun


class EpochContest(StorageDown):
    """New epochs follow one another too quickly: the log is contested, and nothing of it is told for now."""
