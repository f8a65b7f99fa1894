"""What goes on beside the reading of a feed: heartbeats, proofs that the rules are the newest, words about staleness,
and tries of sources that failed. Threads of their own, for the one that reads may wait for long."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from headgate.errors import HeadgateError
from headgate.feed.entry import Position
from headgate.upkeep.feed.disk import Disk
from headgate.upkeep.feed.heartbeat import Heartbeats
from headgate.upkeep.feed.ladder import Ladder
from headgate.upkeep.feed.source import Source, SourceError
from headgate.upkeep.feed.staleness import Level, Pulses, Staleness, stale_after_s
from headgate.upkeep.feed.taking import Enforcer, Taken

BEAT_EVERY_S = 2.0
BEAT_LEAST_S = 0.05
BEAT_AFTER_S = 0.06
ROUND_LEAST_S = 1.0
PROBE_EVERY_S = 0.5


def now_us() -> int:
    return time.time_ns() // 1000


class Watch:
    """`look` is one round; `run` is rounds until told to stop."""

    def __init__(
        self,
        limiter: Enforcer,
        ladder: Ladder[Source],
        heartbeats: Heartbeats,
        staleness: Staleness,
        log: Any,
        taken: Callable[[], Taken],
        disk: Disk | None,
    ) -> None:
        self._limiter = limiter
        self._ladder = ladder
        self._heartbeats = heartbeats
        self._staleness = staleness
        self._log = log
        self._taken = taken
        self._disk = disk
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._pulses: dict[str, Pulses] = {}
        self._next_round_s = 0.0
        self._level = Level.FRESH
        self._is_beating = True
        self.source: Source | None = None
        self.error: str | None = None

    def prove(self, at_us: int | None = None) -> None:
        with self._lock:
            self._staleness.prove(now_us() if at_us is None else at_us)

    def changed(self, _: Position) -> None:
        self._wake.set()

    def age_s(self) -> float:
        return self._staleness.age_s(now_us())

    def follows(self, source: Source | None, error: str | None) -> None:
        """Which source is read now, or why none is."""
        if (source, error) != (self.source, self.error):
            self.source, self.error = source, error
            if source is not None:
                self._staleness.stale_s = stale_after_s(source.wait_s)
            self._tell_engine()
            self._wake.set()

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            if self._wake.wait(BEAT_EVERY_S):
                # The same change is on its way to all the other nodes: heartbeats let it pass first, and do not come
                # all at once.
                stopping.wait(BEAT_AFTER_S * random.uniform(0.5, 1.0))
            self._wake.clear()
            # A mistake of ours must not end the thread: the node would look dead.
            try:
                self.look()
            except ReferenceError:
                return
            except Exception as error:
                self._log.error("watching the feed failed", error=f"{type(error).__name__}: {error}")
            source = self.source
            stopping.wait(BEAT_LEAST_S if source is None else source.beat_least_s)

    def wake(self) -> None:
        self._wake.set()

    def look(self) -> None:
        """A heartbeat at once; the rest at its own pace, however fast changes come."""
        source = self.source
        if source is not None:
            self._beat(source)
        if time.monotonic() < self._next_round_s:
            return
        self._next_round_s = time.monotonic() + ROUND_LEAST_S
        if source is not None and not source.proves:
            self._listen(source)
        self._speak_of_staleness()
        self._tell_engine()
        if self._disk is not None:
            self._disk.sync(self._staleness.proved_us)

    def _beat(self, source: Source) -> None:
        heartbeat = self._heartbeats.make(self._taken(), source.name, self.age_s(), now_us())
        try:
            source.beat(heartbeat)
        except SourceError as error:
            if self._is_beating:
                self._log.warning("heartbeats do not arrive", source=source.name, error=str(error))
            self._is_beating = False
        else:
            self._heartbeats.arrived(heartbeat)
            self._is_beating = True

    def _listen(self, source: Source) -> None:
        """A broker answers as long as it lives; only pulses of the control plane tell that what it has is new."""
        with contextlib.suppress(SourceError):
            pulse = source.pulse()
            known = self._pulses.setdefault(source.name, Pulses())
            proof_us = None if pulse is None else known.proof_us(pulse, self._taken().position, now_us())
            if proof_us is not None:
                self.prove(proof_us)
        stale = self._staleness.level(now_us()) > Level.FRESH
        if stale and self._has_others(source):
            self._ladder.set_stale(source, True)

    def _has_others(self, source: Source) -> bool:
        return any(other is not source for other, _ in self._ladder.errors())

    def _speak_of_staleness(self) -> None:
        level = self._staleness.level(now_us())
        if level == self._level:
            return
        details = {"stale_s": round(self.age_s(), 1), "position": str(self._taken().position)}
        details |= {
            "source": self.source.name if self.source else None,
            "why": self.error or "no word of what is new",
        }
        if level is Level.FRESH:
            self._log.info("the rules are known to be the newest again", **details)
        elif level is Level.STALE and self._level is Level.FRESH:
            self._log.warning("the rules may be stale: the last ones go on", **details)
        elif level is Level.VERY_STALE:
            self._log.error("the rules have been stale for long: the last ones go on", **details)
        self._level = level

    def _tell_engine(self) -> None:
        source = self.source
        self._limiter.set_feed_status(
            contact_us=self._staleness.proved_us, source=source.name if source else "", error=self.error
        )


class Prober:
    """Tries sources that failed while another is followed, so that the better one is taken up when it is back, and one
    that hangs keeps nobody waiting."""

    def __init__(self, ladder: Ladder[Source], log: Any, taken: Callable[[], Taken]) -> None:
        self._ladder = ladder
        self._log = log
        self._taken = taken
        self._heard_us: dict[str, int] = {}

    def run(self, stopping: threading.Event) -> None:
        while not stopping.wait(PROBE_EVERY_S):
            try:
                self.look()
            except Exception as error:
                self._log.error("trying a source failed", error=f"{type(error).__name__}: {error}")

    def look(self) -> None:
        for source in self._ladder.to_probe(time.monotonic()):
            try:
                source.connect()
            except HeadgateError as error:
                self._ladder.failed(source, str(error), time.monotonic())
            else:
                self._ladder.answers(source)
        for source in self._ladder.stale():
            self._revive(source)

    def _revive(self, source: Source) -> None:
        """A pulse that is newer than the one seen before says that the control plane reaches this source again; one of
        an older position, that it is another control plane, or not yet where we are."""
        with contextlib.suppress(HeadgateError):
            pulse = source.pulse()
            if pulse is None:
                return
            before_us = self._heard_us.get(source.name)
            self._heard_us[source.name] = pulse.at_us
            if before_us is not None and pulse.at_us > before_us and pulse.position >= self._taken().position:
                self._ladder.set_stale(source, False)
