"""Which source is followed and when others are tried; how old the rules may be before somebody is told. No waiting."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.feed.entry import START, Position
from headgate.upkeep.feed.heartbeat import USED_KEYS_KEPT, USED_KEYS_SENT, Heartbeats, Node
from headgate.upkeep.feed.ladder import RETRY_MOST_S, Ladder
from headgate.upkeep.feed.source import Answer, Nothing, Pulse, Source, SourceError
from headgate.upkeep.feed.staleness import Level, Pulses, Staleness, stale_after_s
from headgate.upkeep.feed.taking import Taken
from headgate.upkeep.feed.watch import Prober, Watch
from tests.feed.following import Log
from tests.feed.toy_limiter import ToyLimiter

SECOND_US = 1_000_000


def ladder(*names: str) -> Ladder[str]:
    return Ladder(names, chance=lambda: 0.0)


def test_the_first_is_followed_and_the_second_when_it_fails() -> None:
    steps = ladder("a", "b")
    assert steps.pick(0) == "a"
    assert steps.failed("a", "gone", 0)
    assert not steps.failed("a", "gone", 0)
    assert steps.pick(0) == "b"
    assert not steps.is_best("b")
    steps.answers("a")
    assert steps.pick(0) == "a"
    assert steps.is_best("a")


def test_one_that_failed_is_left_to_the_prober_while_another_is_of_use() -> None:
    steps = ladder("a", "b")
    steps.failed("a", "gone", 10)
    assert steps.to_probe(10) == []
    assert steps.to_probe(11) == ["a"]
    assert steps.pick(1_000) == "b"
    steps.failed("b", "gone too", 11)
    assert steps.to_probe(1_000) == []
    assert steps.all_failed() == {"a": "gone", "b": "gone too"}


def test_when_all_fail_the_first_that_is_due_is_tried() -> None:
    steps = ladder("a", "b")
    steps.failed("a", "gone", 0)
    steps.failed("b", "gone", 0.2)
    assert steps.pick(0.3) is None
    assert steps.wait_s(0.3) == pytest.approx(0.2)
    assert steps.pick(0.5) == "a"


def test_waits_grow_to_a_bound_and_begin_afresh_after_a_good_while() -> None:
    steps = ladder("a")
    now_s, waits = 0.0, []
    for _ in range(12):
        steps.failed("a", "gone", now_s)
        waits.append(steps.wait_s(now_s))
        now_s += waits[-1]
        # That it answered for a moment in between does not count.
        steps.answers("a")
    assert waits[:4] == [0.5, 1, 2, 4]
    assert waits[-1] == RETRY_MOST_S
    steps.failed("a", "gone", now_s + 1_000)
    assert steps.wait_s(now_s + 1_000) == 0.5


def test_one_that_is_stale_is_followed_only_when_no_other_answers() -> None:
    steps = ladder("a", "b")
    steps.set_stale("a", True)
    assert steps.pick(0) == "b"
    steps.failed("b", "gone", 0)
    assert steps.pick(0) == "a"
    assert not steps.is_best("a")
    steps.set_stale("a", False)
    assert steps.is_best("a")


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["failed", "answers", "stale", "fresh"]))))
def test_there_is_always_a_next_step(happenings: list[tuple[int, str]]) -> None:
    names = ("a", "b", "c")
    steps = ladder(*names)
    for now_s, (number, what) in enumerate(happenings):
        name = names[number]
        if what == "failed":
            steps.failed(name, "gone", now_s)
        elif what == "answers":
            steps.answers(name)
        else:
            steps.set_stale(name, what == "stale")
        picked = steps.pick(now_s)
        assert (picked is None) == (steps.wait_s(now_s) > 0)
        if picked is None:
            assert steps.pick(now_s + steps.wait_s(now_s) + 1e-6) is not None


@pytest.mark.parametrize(("poll_s", "stale_s"), [(1, 30), (15, 30), (30, 60), (300, 600)])
def test_rules_are_stale_after_half_a_minute_or_two_polls(poll_s: float, stale_s: float) -> None:
    assert stale_after_s(poll_s) == stale_s
    ages = Staleness(stale_s, since_us=0)
    assert ages.level(int(stale_s * SECOND_US)) is Level.FRESH
    assert ages.level(int(stale_s * SECOND_US) + 1) is Level.STALE
    assert ages.level(int(2 * stale_s * SECOND_US) + 1) is Level.VERY_STALE
    ages.prove(int(stale_s * SECOND_US))
    assert ages.level(int(2 * stale_s * SECOND_US)) is Level.FRESH


def test_a_clock_set_back_makes_nothing_young_or_old() -> None:
    ages = Staleness(30, since_us=1_000 * SECOND_US)
    assert ages.age_s(50 * SECOND_US) == 0
    assert ages.age_s(81 * SECOND_US) == 31
    assert ages.level(81 * SECOND_US) is Level.STALE
    ages.prove(80 * SECOND_US)
    assert ages.age_s(81 * SECOND_US) == 1


def at(version: int, epoch: int = 5) -> Position:
    return Position(epoch, version)


def test_a_pulse_proves_when_it_moves_and_speaks_of_what_is_here() -> None:
    pulses = Pulses()
    later_us = 1_000 * SECOND_US
    # The first is as old as it says; later ones are as new as the look that found them, whatever clock made them.
    assert pulses.proof_us(Pulse(at(3), 70), at(3), 100) == 70
    assert pulses.proof_us(Pulse(at(3), 70), at(3), later_us) is None
    assert pulses.proof_us(Pulse(at(3), 75), at(3), later_us) == later_us
    assert pulses.proof_us(Pulse(at(3), 60), at(3), later_us) is None
    assert pulses.proof_us(Pulse(at(4), 80), at(3), later_us) is None
    assert pulses.proof_us(Pulse(at(4), 85), at(4), later_us) == later_us
    assert pulses.proof_us(Pulse(at(4), 90), at(9), later_us) == later_us
    assert pulses.proof_us(Pulse(at(4, epoch=4), 95), at(4), later_us) is None
    assert pulses.proof_us(Pulse(at(4, epoch=6), 99), at(4), later_us) is None


def test_pulses_of_a_slower_clock_count_while_they_are_recent() -> None:
    pulses = Pulses()
    fast_us, slow_us = 1_000 * SECOND_US, 970 * SECOND_US
    assert pulses.proof_us(Pulse(at(3), fast_us), at(3), fast_us) == fast_us
    assert pulses.proof_us(Pulse(at(3), slow_us), at(3), fast_us + 5) == fast_us + 5
    assert pulses.proof_us(Pulse(at(3), slow_us), at(3), fast_us + 6) is None
    # Played back later, both prove nothing any more.
    for old_us in (fast_us, slow_us, fast_us):
        assert pulses.proof_us(Pulse(at(3), old_us), at(3), 1_061 * SECOND_US) is None


def test_a_first_pulse_of_a_clock_that_is_ahead_is_no_younger_than_now() -> None:
    assert Pulses().proof_us(Pulse(at(1), 10_000), at(1), 100) == 100
    assert Pulses().proof_us(Pulse(at(0, 0), 10), START, 100) is None


class Pulsing:
    """A broker that has a pulse, or none, or is away."""

    name = "broker"
    proves = False
    wait_s = beat_least_s = 1.0

    def __init__(self) -> None:
        self.last: Pulse | None = None
        self.is_away = False
        self.beats: list[dict[str, Any]] = []

    def connect(self) -> None:
        if self.is_away:
            raise SourceError("is away")

    def pulse(self) -> Pulse | None:
        self.connect()
        return self.last

    def beat(self, heartbeat: str) -> None:
        self.connect()
        self.beats.append(json.loads(heartbeat))

    def snapshot(self, to_path: str) -> Position:
        raise SourceError(f"has none for {to_path}")

    def changes(self, after: Position, wait_s: float) -> Answer:  # noqa: ARG002
        return Nothing()

    def close(self) -> None: ...


class Watched:
    """A watch over two sources, with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us = 1_000 * SECOND_US
        monkeypatch.setattr("headgate.upkeep.feed.watch.now_us", lambda: self.now_us)
        monkeypatch.setattr("headgate.upkeep.feed.watch.ROUND_LEAST_S", 0.0)
        self.limiter, self.log = ToyLimiter(), Log()
        self.first, self.second = Pulsing(), Pulsing()
        self.second.name = "other"
        self.ladder: Ladder[Source] = Ladder([self.first, self.second], chance=lambda: 0.0)
        beats = Heartbeats(self.limiter, Node("n1", None))
        ages = Staleness(30, self.now_us)
        self.watch = Watch(self.limiter, self.ladder, beats, ages, self.log, lambda: Taken(at(1)), None)
        self.watch.follows(self.first, None)
        self.prober = Prober(self.ladder, self.log, lambda: Taken(at(1)))

    def pass_s(self, seconds: int, *, pulsing: bool) -> None:
        for _ in range(seconds):
            self.now_us += SECOND_US
            if pulsing:
                self.first.last = Pulse(at(1), self.now_us + 77)
            self.watch.look()

    def levels(self) -> list[str]:
        return [level for level, event, _ in self.log.said if "stale" in event or "newest" in event]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_staleness_is_said_once_at_each_step_and_when_it_is_over(watched: Watched) -> None:
    watched.pass_s(60, pulsing=True)
    assert watched.levels() == []
    watched.pass_s(32, pulsing=False)
    assert watched.levels() == ["warning"]
    watched.pass_s(100, pulsing=False)
    assert watched.levels() == ["warning", "error"]
    watched.pass_s(1, pulsing=True)
    assert watched.levels() == ["warning", "error", "info"]
    contact_us, source, error = watched.limiter.statuses[-1]
    assert (contact_us, source, error) == (watched.now_us, "broker", None)


def test_a_source_that_is_polled_has_two_polls(watched: Watched) -> None:
    watched.second.wait_s, watched.second.proves = 100.0, True
    watched.watch.follows(watched.second, None)
    watched.pass_s(199, pulsing=False)
    assert watched.levels() == []
    watched.pass_s(3, pulsing=False)
    assert watched.levels() == ["warning"]


def test_a_broker_without_a_pulse_is_left_for_another_until_it_has_one_again(watched: Watched) -> None:
    watched.pass_s(40, pulsing=False)
    assert watched.ladder.pick(0) is watched.second
    watched.prober.look()
    assert watched.ladder.pick(0) is watched.second
    for number in range(2):
        watched.first.last = Pulse(at(9, epoch=4), number)
        watched.prober.look()
    assert watched.ladder.pick(0) is watched.second
    for number in range(2, 4):
        watched.first.last = Pulse(at(1), number)
        watched.prober.look()
    assert watched.ladder.pick(0) is watched.first


def test_lost_heartbeats_are_said_once(watched: Watched) -> None:
    watched.first.is_away = True
    watched.pass_s(5, pulsing=False)
    assert [event for _, event, _ in watched.log.said] == ["heartbeats do not arrive"]
    watched.first.is_away = False
    watched.pass_s(1, pulsing=True)
    assert watched.first.beats[-1]["stale_s"] > 0


def test_used_keys_are_told_in_bounded_portions_and_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("headgate.upkeep.feed.heartbeat.time.monotonic", lambda: now_s[0])
    limiter = ToyLimiter()
    beats = Heartbeats(limiter, Node("n1", "r1"))
    limiter.used_keys = [f"k{number}" for number in range(USED_KEYS_SENT + 5)]
    told: list[list[str]] = []
    for _ in range(6):
        text = beats.make(Taken(at(1)), "s", 0.0, 1)
        told.append(json.loads(text)["used_keys"])
        beats.arrived(text)
        now_s[0] += 2
    assert all(len(keys) <= USED_KEYS_SENT for keys in told)
    assert told[0] == told[1]
    assert {key for keys in told for key in keys} == {f"k{number}" for number in range(USED_KEYS_SENT + 5)}
    limiter.used_keys = [f"m{number}" for number in range(USED_KEYS_KEPT * 2)]
    for _ in range(30):
        beats.make(Taken(at(1)), "s", 0.0, 1)
    assert len(beats._used) <= USED_KEYS_KEPT


def test_a_mistake_of_ours_ends_no_thread(watched: Watched) -> None:
    stopping = threading.Event()
    calls = []

    def fail() -> None:
        calls.append(1)
        if len(calls) == 2:
            stopping.set()
        watched.watch.wake()
        raise RuntimeError("oh")

    watched.watch.look = fail  # type: ignore[method-assign]
    watched.first.beat_least_s = 0.0
    watched.watch.wake()
    watched.watch.run(stopping)
    assert len(calls) == 2
    assert watched.log.has("error", "watching the feed failed")
