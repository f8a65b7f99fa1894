"""The configuration as a node would enforce it, kept beside the database: what the engine would refuse is refused
before it is written, and what a change would do is tried out here.

It follows the log under the database's lock, so a change is always judged against exactly what it will be added to.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from headgate._core import RulesError, check_entry
from headgate.errors import Path, StorageDown
from headgate.feed import START, Entry, Kind, Position
from headgate.feed.codec import encode_delta, write_snapshot
from headgate.limiter import Limiter
from headgate.storage.sql import Changed, TooLarge, Transaction, entries, history

# How long one change waits for the one before it, in this process. A bulk change of millions takes minutes.
LOCK_TIMEOUT_S = 300.0
# How long one that is urgent does.
READY_S = 0.1
# Past this a snapshot is made of everything instead of reading the log.
CATCH_UP_BYTES_MAX = 32 * 1024 * 1024
# Decisions are only peeked at, so hardly any counters are needed.
_COUNTERS_MAX = 1_000
# Keys and tiers decide nothing here: a request is tried with its facts, not with its credentials.
MIRRORED = (Kind.RULE, Kind.OVERRIDE, Kind.BLOCK, Kind.SWITCH)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why the engine would not take an entry: something in its body, or that the rules together have no room for it."""

    path: Path
    message: str
    is_for_room: bool = False


class FarBehind(Exception):
    """Catching up would take so long that nobody should wait for it: it is done outside the database's lock."""


class Mirror:
    """All methods but `held` want the lock to be held."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._key = secrets.token_bytes(32)
        self._limiter = Limiter(max_keys=_COUNTERS_MAX)
        self._position = START
        # The engine has a count of its own: what is tried out and taken back goes forward there as well.
        self._steps = 0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=LOCK_TIMEOUT_S):
            raise StorageDown(f"another change has been running for {LOCK_TIMEOUT_S:.0f} s; try again later")
        try:
            yield
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def held_if_ready(self) -> Iterator[bool]:
        """Whether it can be used at once: nobody else has it for long, and it need not be made from scratch."""
        if not self._lock.acquire(timeout=READY_S):
            yield False
            return
        try:
            yield not self.is_empty
        finally:
            self._lock.release()

    @property
    def position(self) -> Position:
        return self._position

    @property
    def is_empty(self) -> bool:
        """Whether it has to be made from scratch, which is better done before the database is locked."""
        return self._position == START

    def forget(self) -> None:
        """It may not be as the database is: it will be made anew when next needed."""
        self._position = START

    def moved(self, position: Position) -> None:
        """What was tried out has become true."""
        self._position = position

    def follow(self, tx: Transaction, *, at_once: bool = False) -> None:
        """Be as the database is in this transaction. Raises FarBehind if it has to be `at_once` and cannot."""
        head = tx.head
        if head == self._position:
            return
        if head.epoch == self._position.epoch and head > self._position:
            missed = history.entries_between(tx, self._position.version, head.version, CATCH_UP_BYTES_MAX)
            if not isinstance(missed, TooLarge):
                self._position = START
                for entry in _gone_first(missed):
                    # An engine that has become stricter must not stop all further changes: refused is left out.
                    self._put(entry)
                self._position = head
                return
        if at_once:
            raise FarBehind
        self.rebuild(tx)

    def rebuild(self, tx: Transaction) -> list[tuple[str, str, str]]:
        """Everything anew, in bounded memory. Gives what the engine refused: (kind, id, why)."""
        self._position = START
        # The old one is let go first: two of a million rules would be one too many.
        self._limiter = Limiter(max_keys=_COUNTERS_MAX)
        self._steps = 1
        with tempfile.TemporaryFile(prefix="headgate-mirror-") as file:
            write_snapshot(cast(BinaryIO, file), self._key, Position(1, 1), _now_us(), entries.all(tx, MIRRORED))
            file.flush()
            file.seek(0)
            # It has no name, so nothing of it is left however this process ends.
            applied = self._limiter.apply_snapshot(f"/dev/fd/{file.fileno()}", self._key)
        self._position = tx.head
        return list(applied.refused)

    def attempt(self, changes: Sequence[Changed]) -> list[tuple[int, Flaw]]:
        """Apply them, and give what was refused: which change, and why. What was accepted stays until `undo`."""
        flaws: list[tuple[int, Flaw]] = []
        for nth, change in sorted(enumerate(changes), key=lambda one: one[1].after is not None):
            flaws += [(nth, flaw) for flaw in self._put(Entry(change.kind, change.id, change.after))]
        return sorted(flaws, key=lambda one: one[0])

    def undo(self, changes: Sequence[Changed]) -> None:
        """Take back what `attempt` did. If even that fails the mirror is made anew when next needed."""
        known, self._position = self._position, START
        changes = sorted(changes, key=lambda one: one.before is not None)
        flaws = [flaw for one in changes for flaw in self._put(Entry(one.kind, one.id, one.before))]
        if not flaws:
            self._position = known

    def explain(self, facts: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._limiter.explain(**facts))
        return found

    def _put(self, entry: Entry) -> list[Flaw]:
        """Gives what was wrong with it; nothing is changed then."""
        try:
            if entry.body is not None:
                check_entry(entry.kind.word, entry.body)
        except RulesError as error:
            return [Flaw(tuple(path), message) for path, message in error.errors]
        try:
            if entry.kind is Kind.RULE:
                self._put_rule(entry)
            elif entry.kind is Kind.OVERRIDE:
                self._put_override(entry)
            elif entry.kind in MIRRORED:
                return self._put_delta(entry)
        except RulesError as error:
            # It is right in itself; only beside all others there is no room for it.
            return [Flaw((), message, is_for_room=True) for _, message in error.errors]
        return []

    def _put_rule(self, entry: Entry) -> None:
        if entry.body is None:
            self._limiter.remove_rule(entry.id)
        else:
            self._limiter.put_rule(entry.body)

    def _put_override(self, entry: Entry) -> None:
        if entry.body is None:
            principal, _, value = entry.id.partition(":")
            self._limiter.remove_override(principal, value)
        else:
            self._limiter.put_override(entry.body)

    def _put_delta(self, entry: Entry) -> list[Flaw]:
        since, to = Position(1, self._steps), Position(1, self._steps + 1)
        applied = self._limiter.apply_delta(encode_delta(self._key, since, to, _now_us(), [entry]), self._key)
        self._steps += 1
        return [Flaw((), message, is_for_room=True) for _, _, message in applied.refused]


def mistakes_in(changes: Sequence[Changed]) -> list[tuple[Path, str]]:
    """What the engine finds wrong with each by itself, whatever else there is."""
    found: list[tuple[Path, str]] = []
    for change in changes:
        try:
            if change.after is not None:
                check_entry(change.kind.word, change.after)
        except RulesError as error:
            found += [(tuple(path), message) for path, message in error.errors]
    return found


def _gone_first(missed: Iterable[Entry]) -> list[Entry]:
    """Room is made before it is taken: the engine bounds how many shapes there are."""
    return sorted(missed, key=lambda entry: entry.body is not None)


def _now_us() -> int:
    return time.time_ns() // 1_000
