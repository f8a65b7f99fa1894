"""What publishing is made of: when changes are told, how deltas are cut, what a stream covers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.changes import Changes
from headgate.control.coverage import CHANGES_MAX, Covered, follow, snapshot_is_due
from headgate.control.cuts import KEPT_MAX, Cuts
from headgate.control.epochs import EpochContest
from headgate.control.head import Head
from headgate.control.ledger import Ledger
from headgate.control.local_feed import Gap
from headgate.control.pace import Pace
from headgate.control.snapshots import Snapshots
from headgate.control.sweep import Sweep
from headgate.errors import StorageDown
from headgate.feed.codec import decode_delta, read_snapshot
from headgate.feed.entry import Kind, Position
from headgate.storage.sql import Database, calls, entries, fleet, history, outbox
from headgate.storage.streams import BrokerState, Item, Pointer, StreamState
from tests.feed.plane import KEY, Plane, gone, put, rule, truth
from tests.servers.postgres import Postgres
from tests.servers.waiting import wait_for

SOON_S = 20.0
LOG = structlog.get_logger("test")


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def plane(database: Database, tmp_path: Path) -> Iterator[Plane]:
    plane = Plane(database, tmp_path / "snapshots", {})
    plane.start()
    yield plane
    plane.stop()


def wait_told(head: Head, position: Position) -> None:
    wait_for(f"{position} is told", lambda: head.position == position, SOON_S)


def test_changes_are_told_at_once_until_they_are_a_burst() -> None:
    pace = Pace(every_s=0.2, in_a_row=3)
    for now_s in (10.0, 10.05, 10.1):
        assert pace.wait_s(now_s, urgent=False) == 0
        pace.told(now_s)
    assert pace.wait_s(10.15, urgent=False) == pytest.approx(0.05)
    assert pace.wait_s(10.15, urgent=True) == 0
    assert pace.wait_s(10.11, urgent=True) == pytest.approx(0.01)
    assert pace.wait_s(10.2, urgent=False) == pytest.approx(0)
    pace.told(10.2)
    assert pace.wait_s(10.21, urgent=False) == pytest.approx(0.19)
    assert pace.wait_s(15.0, urgent=False) == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.booleans(), st.floats(0.001, 10), st.integers(1, 5))
def test_nothing_waits_longer_than_its_pace(gaps_s: list[float], urgent: bool, every_s: float, in_a_row: int) -> None:
    pace, now_s = Pace(every_s, in_a_row), 100.0
    for gap_s in gaps_s:
        now_s += gap_s
        assert 0 <= pace.wait_s(now_s, urgent=urgent) <= every_s + 1e-9
        pace.told(now_s)


def test_what_is_urgent_does_not_wait_and_takes_what_waits_with_it(sqlite: Database) -> None:
    head = Head(Ledger(sqlite), log=LOG, pace=Pace(every_s=3600, in_a_row=1))
    head.start()
    try:
        wait_told(head, truth(sqlite)[0])
        put(sqlite, rule("waits"))
        head.committed()
        assert head.wait_beyond(truth(sqlite)[0], 0.3) != truth(sqlite)[0]
        urgent = put(sqlite, (Kind.BLOCK, "b00000000001", '{"id":"b00000000001","ip":"192.0.2.1"}'))
        head.committed()
        wait_told(head, urgent)
    finally:
        head.stop()


def test_whoever_follows_the_head_is_called_until_they_leave_and_a_bad_one_harms_nobody(sqlite: Database) -> None:
    head = Head(Ledger(sqlite), log=LOG)
    seen: list[Position] = []

    def bad(position: Position) -> None:
        raise RuntimeError("no")

    head.subscribe(bad)
    leave = head.subscribe(seen.append)
    head.start()
    try:
        first = put(sqlite, rule("a"))
        head.committed(first)
        wait_told(head, first)
        wait_for("a call", lambda: seen[-1:] == [first], SOON_S)
        leave()
        second = put(sqlite, rule("b"))
        head.committed(second)
        wait_told(head, second)
        assert second not in seen
    finally:
        head.stop()


def test_the_head_is_found_again_after_the_database_was_away(tmp_path: Path) -> None:
    with Postgres() as server:
        database = Database(server.new_database(), connect_timeout_s=2)
        head = Head(Ledger(database), log=LOG)
        head.start()
        try:
            wait_told(head, truth(database)[0])
            server.stop()
            wait_for("an error", lambda: head.error, SOON_S)
            assert "password" not in (head.error or "")
            server.start()
            wait_for("it is over", lambda: head.error is None, SOON_S)
            # Listening again, too: nobody tells this head.
            wait_told(head, put(database, rule("a")))
        finally:
            head.stop()
            database.close()


def test_one_read_of_the_database_serves_all_who_want_the_same_piece(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    since, _ = truth(sqlite)
    to = put(sqlite, rule("a"))
    ledger = Ledger(sqlite)
    cuts, piece = Cuts(ledger, KEY), ledger.piece
    reads: list[int] = []

    def counted(after: int, upto: int) -> object:
        reads.append(after)
        return piece(after, upto)

    monkeypatch.setattr(ledger, "piece", counted)
    found: list[bytes | None] = []
    threads = [threading.Thread(target=lambda: found.append(cuts.delta(since, to))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1
    assert len(set(found)) == 1
    for n in range(3 * KEPT_MAX):
        put(sqlite, rule(f"r{n}"))
        cuts.delta(since, truth(sqlite)[0])
    assert len(cuts._kept) <= KEPT_MAX


def test_a_database_that_is_away_is_asked_again_for_the_same_piece(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    since, _ = truth(sqlite)
    to = put(sqlite, rule("a"))
    ledger = Ledger(sqlite)
    cuts = Cuts(ledger, KEY)
    with monkeypatch.context() as patched:

        def away(after: int, upto: int) -> None:
            raise StorageDown("away")

        patched.setattr(ledger, "piece", away)
        with pytest.raises(StorageDown):
            cuts.delta(since, to)
    assert cuts.delta(since, to) is not None


def test_the_feed_gives_deltas_and_waits_for_them(plane: Plane) -> None:
    since = plane.put(rule("a"))
    wait_told(plane.head, since)
    assert plane.feed.deltas(since, 0.0) is None
    found: list[object] = []
    waiter = threading.Thread(target=lambda: found.append(plane.feed.deltas(since, SOON_S)))
    waiter.start()
    to = plane.put(rule("b"), gone("a"))
    waiter.join(SOON_S)
    (raw,) = found
    assert isinstance(raw, bytes)
    delta = decode_delta(KEY, raw)
    assert (delta.since, delta.to) == (since, to)
    assert {(entry.id, entry.body is None) for entry in delta.entries} == {("a", True), ("b", False)}


def test_the_feed_sends_to_the_snapshot_whoever_cannot_be_told_by_a_delta(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = plane.put(rule("a"))
    wait_told(plane.head, since)
    assert isinstance(plane.feed.deltas(Position(since.epoch - 1, 5), 0.0), Gap)
    monkeypatch.setattr("headgate.control.ledger.DELTA_ENTRIES_MAX", 3)
    to = plane.put(*(rule(f"r{n}") for n in range(9)))
    wait_told(plane.head, to)
    assert isinstance(plane.feed.deltas(since, 0.0), Gap)
    file, snapshot = plane.feed.open_snapshot()
    with file:
        bodies = {(entry.kind, entry.id): entry.body for entry in read_snapshot(file, KEY)}
    assert (snapshot.position, bodies) == truth(plane.database)
    assert plane.feed.snapshot_path() == snapshot.path


def test_a_node_ahead_of_the_log_makes_it_begin_a_new_epoch(plane: Plane) -> None:
    head = plane.put(rule("a"))
    wait_told(plane.head, head)
    assert isinstance(plane.feed.deltas(Position(head.epoch, 99), 0.0), Gap)
    now, _ = truth(plane.database)
    assert now.epoch > head.epoch
    assert now.version == head.version


def test_snapshots_are_made_once_and_do_not_pile_up(plane: Plane, tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir(exist_ok=True)
    left_behind = tmp_path / "snapshots" / "headgate-999999999-abc.hgs"
    left_behind.write_text("x")
    head = plane.put(rule("a"))
    first = plane.snapshots.take(at_least=head)
    assert plane.snapshots.take(at_least=head) is first
    assert not left_behind.exists()
    for n in range(5):
        plane.snapshots.take(at_least=plane.put(rule(f"r{n}")))
    assert len(list((tmp_path / "snapshots").iterdir())) <= 2
    plane.snapshots.close()
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_an_epoch_that_has_not_come_is_believed_of_nobody(plane: Plane) -> None:
    head = plane.put(rule("a"))
    wait_told(plane.head, head)
    assert isinstance(plane.feed.deltas(Position(999_999_999_999_999_999, 1), 0.0), Gap)
    assert truth(plane.database)[0] == head


def test_one_that_began_while_a_clock_was_ahead_is_still_gone_on_from(plane: Plane) -> None:
    """A database that went back in time within such an epoch would be told of to nobody else."""
    with plane.database.write() as tx:
        tx.new_epoch(above=4_000_000_000_000_000)
    head = plane.put(rule("a"))
    wait_told(plane.head, head)
    assert isinstance(plane.feed.deltas(Position(head.epoch, head.version + 5), 0.0), Gap)
    assert truth(plane.database)[0].epoch > head.epoch


def test_epochs_that_follow_one_another_too_quickly_are_a_contest_that_names_its_cause(plane: Plane) -> None:
    head = plane.put(rule("a"))
    begun = plane.epochs.settle(Position(head.epoch, 99))
    assert begun.epoch > head.epoch
    with pytest.raises(EpochContest, match="another control plane") as raised:
        plane.epochs.settle(Position(begun.epoch, 99))
    # The API answers 503 to that.
    assert isinstance(raised.value, StorageDown)
    assert truth(plane.database)[0] == begun


@pytest.mark.parametrize("made", ["nothing", "ours", "open to all", "a link", "a file"])
def test_snapshots_are_never_put_where_others_may_write(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    usual = tmp_path / f"headgate-{os.getuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    match made:
        case "ours":
            usual.mkdir(mode=0o700)
        case "open to all":
            usual.mkdir()
            usual.chmod(0o777)
        case "a link":
            usual.symlink_to(elsewhere)
        case "a file":
            usual.write_text("x")
    snapshots = Snapshots(Ledger(sqlite), KEY, log=LOG)
    path = Path(snapshots.take(at_least=truth(sqlite)[0]).path)
    assert (path.parent == usual) == (made in ("nothing", "ours"))
    assert path.parent != elsewhere
    assert list(elsewhere.iterdir()) == []
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    snapshots.close()


def items(*spans: tuple[int, int]) -> list[Item | None]:
    return [Item(Position(1, since), Position(1, to), b"raw") for since, to in spans]


def test_a_chain_of_deltas_is_whole_or_it_is_not() -> None:
    at = Position(1, 5)
    assert follow(at, []) == (at, 0, 0)
    assert follow(at, items((5, 6), (6, 9), (3, 12))) == (Position(1, 12), 3, 9)
    assert follow(at, items((6, 7))) is None
    assert follow(at, items((5, 6), (8, 9))) is None
    assert follow(at, [*items((5, 6)), None]) is None
    assert follow(at, [Item(Position(2, 5), Position(2, 6), b"")]) is None


def test_what_was_verified_is_known_again() -> None:
    pointer = Pointer(Position(1, 5), "name:", 10, 0, ("sum",))
    covered = Covered(pointer, Position(1, 9), "9-0", added=4, first=6, deleted=0)
    stream = StreamState("stream", 4, "9-0", 9, 0, 4, 6)
    state = BrokerState(stream, pointer, b"raw", True, None)
    assert covered.looks_same(state)
    grown = replace(state, stream=replace(stream, added=5, last_id="10-0"))
    assert not covered.looks_same(grown)
    assert covered.only_grew(grown)
    for touched in (
        replace(stream, first=7),
        replace(stream, deleted=8),
        replace(stream, added=3),
        StreamState("none"),
        StreamState("other"),
    ):
        assert not covered.only_grew(replace(state, stream=touched))
    assert not covered.only_grew(replace(state, pointer=None))


def test_a_snapshot_is_due_after_many_changes_or_much_time() -> None:
    pointer = Pointer(Position(1, 5), "name:", 10, 0, ("sum",))
    covered = Covered(pointer, Position(1, 9), "9-0", added=4, first=6, deleted=0)
    hour_us = 3_600_000_000
    assert not snapshot_is_due(covered, Position(1, 9), hour_us)
    assert snapshot_is_due(covered, Position(1, 9), hour_us + 1)
    assert not snapshot_is_due(covered, Position(1, 5), 100 * hour_us)
    assert snapshot_is_due(covered, Position(1, 6 + CHANGES_MAX), 0)
    assert snapshot_is_due(replace(covered, delta_bytes=17 * 1024 * 1024), Position(1, 9), 0)


def test_ended_blocks_are_lifted_as_one_change_an_hour_later(database: Database) -> None:
    now = datetime.now(UTC)
    ends = {"ended-long-ago": 61, "ended-just-now": 59}
    for number, minutes in enumerate(ends.values()):
        until = (now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = f"b0000000000{number}"
        put(database, (Kind.BLOCK, name, f'{{"id":"{name}","ip":"192.0.2.{number}","until":"{until}"}}'))
    put(database, (Kind.BLOCK, "b00000000009", '{"id":"b00000000009","ip":"192.0.2.9"}'))
    before, _ = truth(database)
    sweep = Sweep(database, Changes(database), log=LOG)
    sweep.once(now)
    sweep.once(now)
    after, bodies = truth(database)
    assert {entry_id for _, entry_id in bodies} == {"b00000000001", "b00000000009"}
    assert after.version == before.version + 1
    with database.read() as tx:
        change = history.version(tx, after.version)
    assert change is not None
    assert (change.who, change.why) == ("headgate", "expired")


def test_old_calls_dead_nodes_and_what_all_regions_have_are_swept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.storage.sql.outbox.KEPT", 1)
    now = datetime.now(UTC)
    head = [put(database, rule(f"r{n}")) for n in range(4)][-1]
    with database.aside() as tx:
        for days in (1, 100):
            calls.add_many(tx, [calls.CallRow(now - timedelta(days=days), "ada", "PUT", f"/{days}", 200)])
            fleet.put(tx, [fleet.Beat(f"n{days}", None, head, now - timedelta(days=days / 2), "{}")])
        outbox.published(tx, "eu", Position(head.epoch, 2))
    Sweep(database, Changes(database), log=LOG).once(now)
    with database.read() as tx:
        assert [call.path for call in calls.page(tx, limit=10)] == ["/1"]
        assert [beat.node for beat in fleet.all(tx)] == ["n1"]
        assert [pending.position.version for pending in outbox.pending(tx, "eu")] == [3, 4]
        assert entries.count(tx, Kind.RULE) == 4
