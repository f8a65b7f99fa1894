"""Keeps a limiter at the newest rules: by the first source of a ladder that is of use, by the disk when none is."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headgate.errors import FeedError, HeadgateError
from headgate.feed.codec import check_key
from headgate.feed.entry import START, Position
from headgate.upkeep.feed.disk import Disk
from headgate.upkeep.feed.heartbeat import Heartbeats, Node
from headgate.upkeep.feed.http_source import HttpSource
from headgate.upkeep.feed.ladder import Ladder
from headgate.upkeep.feed.source import Deltas, Source, SourceError, TakeSnapshot
from headgate.upkeep.feed.staleness import Staleness, stale_after_s
from headgate.upkeep.feed.taking import Enforcer, Taker
from headgate.upkeep.feed.watch import Prober, Watch, now_us

# With rules of the disk in force, a start waits no longer than this for newer ones.
GRACE_S = 2.0
# Without any, sources that fail are given so long to come up; one that is slow has all the time there is.
PATIENCE_S = 5.0
# While a better source is hoped for, one read waits no longer than this.
SECOND_BEST_WAIT_S = 2.0
_JOIN_S = 2.0


class NoRules(HeadgateError):
    """No source has rules and there are none on disk; says of each why."""


class Step(enum.Enum):
    """What one question to a source came to."""

    SNAPSHOT = enum.auto()
    DELTAS = enum.auto()
    NEWEST = enum.auto()
    NOT_ASKED = enum.auto()


@dataclass(frozen=True, slots=True)
class Status:
    """How a follower stands. `source` is None while none answers."""

    position: Position
    source: str | None
    error: str | None
    stale_s: float
    lag_ms: float | None
    # Each source with what is wrong with it, in the ladder's order.
    sources: tuple[tuple[str, str | None], ...]
    is_kept_on_disk: bool


class Follower:
    """`start`, then `first` until there are rules; `stop` at the end.

    limiter         takes the rules; what decides requests never waits for any of this
    sources         in order of preference
    key             the feed key: what is not made with it is refused
    snapshot_path   where the rules are kept for a restart with everything away; its folder must exist
    on_change       called with each new position, by the thread that took it
    """

    def __init__(
        self,
        limiter: Enforcer,
        sources: Sequence[Source],
        *,
        key: bytes,
        snapshot_path: str | None,
        node_id: str,
        region: str | None,
        log: Any,
        on_change: Callable[[Position], None] | None = None,
    ) -> None:
        self._limiter = limiter
        self._sources = tuple(sources)
        self._key = check_key(key)
        self._log = log
        self._on_change = on_change
        self._ladder = Ladder(self._sources)
        self._disk = None if snapshot_path is None else Disk(snapshot_path)
        self._staleness = Staleness(stale_after_s(self._sources[0].wait_s), now_us())
        self._node = Node(node_id, region)
        self._stopping = threading.Event()
        self._patient_until_s = 0.0
        # Set once it is known whether there are rules.
        self._decided = threading.Event()
        self._taker: Taker | None = None
        self._watch: Watch | None = None
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Takes the rules on disk, if there are any, and starts to look for newer ones. Raises ConfigError for a
        `snapshot_path` that cannot be used."""
        for source in self._sources:
            if isinstance(source, HttpSource) and source.is_overheard:
                words = "rules are fetched without TLS: whoever is in between can read them, and hold changes back"
                self._log.warning(words, source=source.name)
        found = disk = self._disk
        if disk is not None and not disk.open():
            words = "another process keeps its rules there; this one only reads them, at its start"
            self._log.warning(words, file=disk.path)
            disk = self._disk = None
        taker = self._taker = Taker(self._limiter, self._key, disk, self._log, self._changed)
        if found is not None:
            proved_us = found.proved_us()
            if taker.load(found):
                self._staleness.proved_us = min(now_us(), proved_us)
        heartbeats = Heartbeats(self._limiter, self._node)
        watch = self._watch = Watch(
            self._limiter, self._ladder, heartbeats, self._staleness, self._log, lambda: taker.taken, disk
        )
        self._patient_until_s = time.monotonic() + PATIENCE_S
        self._spawn("headgate-feed", lambda: self._read(taker, watch))
        self._spawn("headgate-feed-watch", lambda: watch.run(self._stopping))
        if len(self._sources) > 1:
            prober = Prober(self._ladder, self._log, lambda: taker.taken)
            self._spawn("headgate-feed-probe", lambda: prober.run(self._stopping))

    def first(self, timeout_s: float) -> Position:
        """Waits until the limiter has rules. Raises NoRules when all sources are away and none are on disk."""
        taker = self._running()
        has_some = taker.position != START
        self._decided.wait(min(timeout_s, GRACE_S) if has_some else timeout_s)
        if taker.position == START:
            raise NoRules(self._no_rules(timeout_s))
        return taker.position

    def stop(self) -> None:
        self._stopping.set()
        if self._watch is not None:
            self._watch.wake()
        for source in self._sources:
            source.close()
        for thread in self._threads:
            thread.join(_JOIN_S)
        if self._disk is not None and not any(thread.is_alive() for thread in self._threads):
            self._disk.close()

    def status(self) -> Status:
        taker, watch = self._running(), self._watch
        assert watch is not None
        return Status(
            position=taker.position,
            source=watch.source.name if watch.source is not None else None,
            error=watch.error,
            stale_s=watch.age_s(),
            lag_ms=taker.taken.lag_ms,
            sources=tuple((source.name, error) for source, error in self._ladder.errors()),
            is_kept_on_disk=self._disk is not None,
        )

    def _read(self, taker: Taker, watch: Watch) -> None:
        """Every branch of following a feed, until told to stop."""
        while not self._stopping.is_set():
            source = self._ladder.pick(time.monotonic())
            if source is None:
                self._stopping.wait(self._all_failed(taker))
                continue
            try:
                step = self._step(source, taker, watch)
            except SourceError as error:
                self._fail(source, str(error), watch)
            except ReferenceError:
                # The limiter of a program is gone, and nobody is left to follow for.
                return
            # Whatever a source or a disk does to us, the rules that are there go on and others are looked for.
            except Exception as error:
                self._fail(source, f"{type(error).__name__}: {error}", watch)
            else:
                self._ladder.answers(source)
                if source.proves and step in (Step.DELTAS, Step.NEWEST):
                    watch.prove()
                if step in (Step.NEWEST, Step.NOT_ASKED):
                    self._caught_up(source, taker, watch)

    def _all_failed(self, taker: Taker) -> float:
        """How long to leave them alone. Without any rules one is patient: what is started together comes up in any
        order."""
        now_s = time.monotonic()
        wait_s = self._ladder.wait_s(now_s)
        left_s = self._patient_until_s - now_s
        if taker.position != START or left_s <= 0:
            self._decided.set()
            return wait_s
        return min(wait_s, left_s)

    def _step(self, source: Source, taker: Taker, watch: Watch) -> Step:
        """One question and what its answer asks for."""
        if taker.position == START:
            taker.snapshot(source)
            return Step.SNAPSHOT
        is_new = watch.source is not source
        answer = source.changes(taker.cursor, 0.0 if is_new else self._wait_s(source))
        if isinstance(answer, TakeSnapshot):
            self._log.info("the snapshot is taken", source=source.name, why=answer.why)
            taker.snapshot(source)
            return Step.SNAPSHOT
        if isinstance(answer, Deltas):
            self._take(answer, source, taker)
        try:
            taker.take_care(source)
        except SourceError as error:
            # Its deltas are as good as before.
            self._log.warning("a snapshot could not be had", source=source.name, error=str(error))
        if isinstance(answer, Deltas):
            return Step.DELTAS
        return Step.NEWEST if answer.is_proof else Step.NOT_ASKED

    def _caught_up(self, source: Source, taker: Taker, watch: Watch) -> None:
        """A snapshot may be older than what is newest: only when nothing follows is a node where it should be."""
        if watch.source is not source:
            self._log.info("following a source of rules", source=source.name, position=str(taker.position))
        watch.follows(source, None)
        self._decided.set()

    def _take(self, answer: Deltas, source: Source, taker: Taker) -> None:
        before = taker.cursor
        try:
            taker.deltas(answer.raw)
        except FeedError as error:
            self._log.warning("a delta is refused; the snapshot is taken", source=source.name, error=str(error))
            return taker.snapshot(source)
        if taker.cursor == before:
            raise SourceError(f"sends again what is there already, after {before}")
        return None

    def _wait_s(self, source: Source) -> float:
        return source.wait_s if self._ladder.is_best(source) else min(source.wait_s, SECOND_BEST_WAIT_S)

    def _fail(self, source: Source, error: str, watch: Watch) -> None:
        if self._stopping.is_set():
            return
        if self._ladder.failed(source, error, time.monotonic()):
            self._log.warning("a source of rules is of no use now", source=source.name, error=error)
        if self._ladder.all_failed() is not None or watch.source is source:
            watch.follows(None, f"{source.name}: {error}")

    def _changed(self, position: Position) -> None:
        if self._watch is not None:
            self._watch.changed(position)
        if self._on_change is not None:
            self._on_change(position)

    def _no_rules(self, timeout_s: float) -> str:
        lines = ["there are no rules: no source has any, and none are kept on disk"]
        for source, error in self._ladder.errors():
            lines.append(f"  {source.name}: {error or f'did not answer within {timeout_s:g} s'}")
        if self._disk is None:
            lines.append("  (no place on disk is given, or another process has it)")
        return "\n".join(lines)

    def _running(self) -> Taker:
        assert self._taker is not None, "start the follower first"
        return self._taker

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
