"""Deltas cut from the log, once for all who want the same piece."""

from __future__ import annotations

import threading
from collections import OrderedDict

from headgate.control.ledger import DELTA_BYTES_MAX, Ledger
from headgate.feed.codec import encode_delta
from headgate.feed.entry import Position

# All who follow closely want the last piece; those a step behind, one of the few before it.
KEPT_MAX = 16
KEPT_BYTES_MAX = 32 * 1024 * 1024


class Cuts:
    def __init__(self, ledger: Ledger, key: bytes) -> None:
        self._ledger = ledger
        self._key = key
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Position, Position], _Cut] = OrderedDict()

    def delta(self, since: Position, to: Position) -> bytes | None:
        """None when it would be too large. Raises StorageDown."""
        if since.epoch != to.epoch or since > to:
            raise ValueError(f"a delta goes forward within one epoch, not from {since} to {to}")
        with self._lock:
            cut = self._kept.get((since, to))
            if cut is None:
                cut = self._kept[since, to] = _Cut()
            self._kept.move_to_end((since, to))
            self._bound()
        # Whoever comes first reads; the others wait for it.
        with cut.lock:
            if not cut.is_made:
                cut.raw = self._cut(since, to)
                cut.is_made = True
            return cut.raw

    def _cut(self, since: Position, to: Position) -> bytes | None:
        piece = self._ledger.piece(since.version, to.version)
        if piece is None:
            return None
        raw = encode_delta(self._key, since, to, piece.at_us, piece.entries)
        return raw if len(raw) <= DELTA_BYTES_MAX else None

    def _bound(self) -> None:
        while len(self._kept) > KEPT_MAX or sum(len(cut.raw or b"") for cut in self._kept.values()) > KEPT_BYTES_MAX:
            if len(self._kept) == 1:
                return
            self._kept.popitem(last=False)


class _Cut:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_made = False
        self.raw: bytes | None = None
