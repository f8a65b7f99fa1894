"""The rules on disk: what a restart with everything away finds, whatever became of the files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.feed.entry import Kind, Position
from headgate.upkeep.feed import NoRules
from headgate.upkeep.feed.disk import Disk
from headgate.upkeep.feed.source import Answer, Nothing, Pulse, SourceError
from headgate.upkeep.feed.taking import Taker
from tests.feed.following import SOON_S, Following, Log, following
from tests.feed.toy_control import KEY, ToyControl, ToyFeed
from tests.feed.toy_limiter import ToyApplied, ToyLimiter
from tests.servers.waiting import wait_for

AWAY = "http://127.0.0.1:1"
DELTAS = 6


class Kept:
    """Files as a node leaves them: a snapshot and a few deltas after it; and what was enforced at each version."""

    def __init__(self, folder: Path) -> None:
        self.control = ToyControl(folder / "control")
        self.control.rule("first")
        self.path = folder / "rules.hgs"
        self.states: dict[Position, dict[tuple[Kind, str], str]] = {}
        disk = open_disk(self.path)
        (folder / "rules.hgs.new").write_bytes(self.control.snapshot_path.read_bytes())
        disk.keep(disk.draft_path)
        self._note()
        for number in range(DELTAS):
            disk.append(self.control.rule(f"r{number}"))
            self._note()
        disk.close()
        self.snapshot = self.path.read_bytes()
        self.journal = Path(f"{self.path}.log").read_bytes()

    def _note(self) -> None:
        self.states[self.control.position] = dict(self.control.bodies)

    def put(self, snapshot: bytes, journal: bytes) -> None:
        self.path.write_bytes(snapshot)
        Path(f"{self.path}.log").write_bytes(journal)

    def load(self) -> tuple[bool, ToyLimiter, Log]:
        disk = open_disk(self.path)
        limiter, log = ToyLimiter(), Log()
        loaded = Taker(limiter, KEY, disk, log, lambda _: None).load(disk)
        disk.close()
        return loaded, limiter, log


def open_disk(path: Path, **options: int) -> Disk:
    disk = Disk(str(path), **options)
    assert disk.open()
    return disk


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


def test_what_was_kept_is_enforced_again(kept: Kept) -> None:
    kept.put(kept.snapshot, kept.journal)
    loaded, limiter, _ = kept.load()
    assert loaded
    assert limiter.position == kept.control.position
    assert limiter.bodies == kept.control.bodies


@pytest.mark.parametrize("tenth", range(10))
def test_a_truncated_snapshot_is_refused(kept: Kept, tenth: int) -> None:
    kept.put(kept.snapshot[: len(kept.snapshot) * tenth // 10], kept.journal)
    loaded, limiter, log = kept.load()
    assert not loaded
    assert limiter.bodies == {}
    assert log.has("error", "the rules on disk are refused")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_flipped_bit_is_ever_enforced(kept: Kept, data: st.DataObject) -> None:
    """Of the journal, what comes before the damage is."""
    which = data.draw(st.sampled_from(["snapshot", "journal"]))
    raw = bytearray(kept.snapshot if which == "snapshot" else kept.journal)
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= 1 << data.draw(st.integers(0, 7))
    kept.put(bytes(raw) if which == "snapshot" else kept.snapshot, bytes(raw) if which == "journal" else kept.journal)
    loaded, limiter, log = kept.load()
    assert loaded is (which == "journal")
    if loaded:
        assert kept.states[limiter.position] == limiter.bodies
        assert limiter.position < kept.control.position
        assert log.has("warning", "journal")
    # What was bad is cut off: the next start has nothing to say.
    if loaded:
        again, second, log = kept.load()
        assert again
        assert second.bodies == limiter.bodies
        assert not log.has("warning", "journal")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, 2000))
def test_a_journal_cut_anywhere_gives_what_came_before(kept: Kept, length: int) -> None:
    kept.put(kept.snapshot, kept.journal[: min(length, len(kept.journal))])
    loaded, limiter, _ = kept.load()
    assert loaded
    assert kept.states[limiter.position] == limiter.bodies


def test_a_journal_of_an_older_snapshot_is_passed_over(kept: Kept) -> None:
    """As a crash between the two leaves them."""
    kept.put(kept.control.snapshot_path.read_bytes(), kept.journal)
    loaded, limiter, log = kept.load()
    assert loaded
    assert limiter.bodies == kept.control.bodies
    assert not log.has("warning", "journal")


def test_after_a_cut_the_journal_goes_on(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(kept.snapshot, kept.journal + b"\x40\0\0\0torn")
    with ToyFeed(kept.control) as feed, following(feed.url, kept.path) as node:
        kept.control.rule("after")
        node.has_what(kept.control)
        assert node.log.has("warning", "cut off")
    with following(AWAY, kept.path) as node:
        node.has_what(kept.control)


@pytest.mark.usefixtures("impatient")
def test_a_damaged_snapshot_gives_way_to_the_rest_of_the_ladder(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.put(kept.snapshot[:-1], kept.journal)
    broken = Following(AWAY, kept.path)
    broken.follower.start()
    with pytest.raises(NoRules):
        broken.follower.first(SOON_S)
    broken.follower.stop()
    with ToyFeed(kept.control) as feed, following(f"{AWAY},{feed.url}", kept.path) as node:
        node.has_what(kept.control)
    with following(AWAY, kept.path) as node:
        node.has_what(kept.control)


@pytest.mark.usefixtures("impatient")
def test_another_key_refuses_the_files(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    node = Following(AWAY, kept.path, key=b"another key of 32 bytes or more.")
    node.follower.start()
    with pytest.raises(NoRules):
        node.follower.first(SOON_S)
    node.follower.stop()
    assert node.log.has("error", "refused")


class Offers:
    """A source that has one snapshot."""

    name, proves = "offers", True
    wait_s = beat_least_s = 1.0

    def __init__(self, raw: bytes, position: Position) -> None:
        self.raw, self.position = raw, position
        self.calls = 0

    def connect(self) -> None: ...
    def beat(self, heartbeat: str) -> None: ...
    def close(self) -> None: ...

    def snapshot(self, to_path: str) -> Position:
        self.calls += 1
        Path(to_path).write_bytes(self.raw)
        return self.position

    def changes(self, after: Position, wait_s: float) -> Answer:  # noqa: ARG002
        return Nothing()

    def pulse(self) -> Pulse | None:
        return None


def test_a_journal_that_fills_up_is_shortened_by_a_new_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's snapshot is older than what is enforced: what follows it stays in the journal, or is read again."""
    control = ToyControl(tmp_path / "control")
    control.rule("first")
    path = tmp_path / "rules.hgs"
    limiter = ToyLimiter()
    disk = open_disk(path, journal_bytes_max=3000)
    taker = Taker(limiter, KEY, disk, Log(), lambda _: None)
    taker.snapshot(Offers(control.snapshot_path.read_bytes(), control.position))
    number = 0
    while not disk.wants_snapshot:
        taker.deltas([control.rule(f"r{number}")])
        number += 1
        if number == 10:
            offered = Offers(control.snapshot_path.read_bytes(), control.position)
    before = os.path.getsize(f"{path}.log")
    taker.take_care(offered)
    assert 0 < os.path.getsize(f"{path}.log") < before
    assert taker.cursor == taker.position == control.position
    # Not again at once, and the bound holds.
    for extra in range(30):
        taker.deltas([control.rule(f"more{extra}")])
    assert os.path.getsize(f"{path}.log") <= 3000
    calls = offered.calls
    taker.take_care(offered)
    assert offered.calls == calls
    # There is a gap now between the journal and what is enforced: the source is read from the snapshot on.
    monkeypatch.setattr(time, "monotonic", lambda: float("inf"))
    taker.take_care(offered)
    assert offered.position <= taker.cursor < taker.position
    disk.close()
    reopened = ToyLimiter()
    second = open_disk(path)
    assert Taker(reopened, KEY, second, Log(), lambda _: None).load(second)
    assert reopened.position == taker.cursor
    second.close()


def test_a_forged_snapshot_never_replaces_the_one_on_disk(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    disk = open_disk(kept.path, journal_bytes_max=len(kept.journal))
    taker = Taker(ToyLimiter(), KEY, disk, Log(), lambda _: None)
    assert taker.load(disk)
    raw = bytearray(kept.control.snapshot_path.read_bytes())
    raw[-1] ^= 1
    with pytest.raises(SourceError, match="refused"):
        taker.take_care(Offers(bytes(raw), kept.control.position))
    disk.close()
    loaded, limiter, _ = kept.load()
    assert loaded
    assert limiter.bodies == kept.control.bodies


def test_a_full_disk_does_not_keep_rules_from_being_enforced(tmp_path: Path) -> None:
    control = ToyControl(tmp_path / "control")
    control.rule("first")
    path = tmp_path / "rules.hgs"
    os.symlink("/dev/full", f"{path}.log")
    with ToyFeed(control) as feed, following(feed.url, path) as node:
        control.rule("second")
        node.has_what(control)
        assert node.log.has("error", "cannot be kept on disk")


def test_staleness_goes_on_counting_over_a_restart(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    old_s = time.time() - 3600
    os.utime(kept.path, (old_s, old_s))
    os.utime(f"{kept.path}.log", (old_s, old_s))
    with following(AWAY, kept.path) as node:
        assert 3590 < node.follower.status().stale_s < 3700
        wait_for("an error", lambda: node.log.has("error", "stale for long"), SOON_S, node.describe)
        assert node.limiter.rule_count() == len([kind for kind, _ in kept.control.bodies if kind is Kind.RULE])


class Full(ToyLimiter):
    """Has no room for a delta's entries until a snapshot is taken."""

    def apply_delta(self, raw: bytes, key: bytes) -> ToyApplied:
        applied = super().apply_delta(raw, key)
        return ToyApplied(applied.epoch, applied.version, 0, [("rule", "r", "no room")], is_full=True)


def test_a_limiter_without_room_is_given_the_snapshot_once_in_a_while(tmp_path: Path) -> None:
    control = ToyControl(tmp_path / "control")
    control.rule("first")
    taker = Taker(Full(), KEY, None, Log(), lambda _: None)
    old = Offers(control.snapshot_path.read_bytes(), control.position)
    taker.snapshot(old)
    taker.deltas([control.rule("second")])
    offered = Offers(control.snapshot_path.read_bytes(), control.position)
    taker.take_care(offered)
    assert offered.calls == 1
    taker.deltas([control.rule("third")])
    taker.take_care(offered)
    assert offered.calls == 1
    assert taker.position == control.position


def test_no_older_snapshot_makes_room(tmp_path: Path) -> None:
    control = ToyControl(tmp_path / "control")
    control.rule("first")
    taker = Taker(Full(), KEY, None, Log(), lambda _: None)
    old = Offers(control.snapshot_path.read_bytes(), control.position)
    taker.snapshot(old)
    taker.deltas([control.rule("second")])
    taker.take_care(old)
    assert taker.position == control.position


def test_drafts_of_a_process_that_was_killed_are_cleared_away(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for name in ("rules.hgs.new", "rules.hgs.new.123.abcd.draft"):
        (tmp_path / name).write_bytes(b"half")
    loaded, _, _ = kept.load()
    assert loaded
    assert sorted(path.name for path in tmp_path.glob("rules*")) == ["rules.hgs", "rules.hgs.lock", "rules.hgs.log"]
