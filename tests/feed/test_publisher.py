"""From the log to brokers: what nodes see is what the database says, whatever happens to the brokers meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.feed.codec import encode_delta
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.sql import Database, outbox
from headgate.storage.streams import PREFIX, Broker
from tests.feed.plane import KEY, Plane, gone, put, rule, running, snapshot_of, truth
from tests.feed.toy_node import ToyNode
from tests.servers.server import Server
from tests.servers.waiting import wait_for

SOON_S = 20.0


pytestmark = pytest.mark.usefixtures("quick_audits")


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that a test may kill."""
    with Server() as server:
        yield server


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Database]:
    database = Database(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def plane(sqlite: Database, server: Server, tmp_path: Path) -> Iterator[Plane]:
    with running(sqlite, tmp_path / "snapshots", {"eu": server.url}) as plane:
        yield plane


@pytest.fixture
def node(server: Server, tmp_path: Path) -> Iterator[ToyNode]:
    broker = Broker(server.url, key=KEY)
    yield ToyNode(broker, KEY, tmp_path / "node.hgs")
    broker.close()


def assert_has_the_truth(node: ToyNode, database: Database) -> None:
    position, bodies = truth(database)
    node.reach(position, SOON_S)
    assert node.bodies == bodies


def test_a_node_follows_every_kind_of_change(database: Database, server: Server, tmp_path: Path, node: ToyNode) -> None:
    put(database, rule("there-before"))
    with running(database, tmp_path / "snapshots", {"eu": server.url}) as plane:
        assert_has_the_truth(node, database)
        plane.put(rule("a"), rule("b"))
        plane.put(rule("a", "9/minute"))
        plane.put(gone("b"), (Kind.SWITCH, "a", '{"id":"a"}'))
        assert_has_the_truth(node, database)
        assert node.snapshots == 1
        with database.read() as tx:
            pass
        wait_for("the database knows how far the region is", lambda: _noted(database, "eu") == tx.head, SOON_S)


def test_an_empty_database_is_published_as_well(plane: Plane, node: ToyNode) -> None:
    position, _ = truth(plane.database)
    assert position.version == 0
    node.reach(position, SOON_S)
    assert node.bodies == {}
    assert_has_the_truth(node, plane.database)


def test_a_burst_becomes_few_deltas_and_nothing_is_lost(plane: Plane, node: ToyNode, server: Server) -> None:
    assert_has_the_truth(node, plane.database)
    for n in range(200):
        plane.put(rule(f"r{n % 50}", f"{n + 1}/minute"))
    assert_has_the_truth(node, plane.database)
    assert server.command("XLEN", f"{PREFIX}:deltas") < 100


def test_what_is_too_large_for_a_delta_goes_as_a_snapshot(
    plane: Plane, node: ToyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_has_the_truth(node, plane.database)
    monkeypatch.setattr("headgate.control.ledger.DELTA_ENTRIES_MAX", 10)
    plane.put(*(rule(f"r{n}") for n in range(20)))
    assert_has_the_truth(node, plane.database)
    assert node.snapshots == 2
    plane.put(rule("small"))
    assert_has_the_truth(node, plane.database)
    assert node.snapshots == 2


def test_a_snapshot_follows_after_many_changes_and_the_stream_is_cut(
    plane: Plane, node: ToyNode, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.control.coverage.CHANGES_MAX", 3)
    broker = plane.publisher.brokers()["eu"]
    assert_has_the_truth(node, plane.database)
    seen = {snapshot_of(broker)}
    for n in range(2):
        for m in range(4):
            plane.put(rule(f"r{n}.{m}"))
        plane.snapshots._next_s = 0
        head, _ = truth(plane.database)
        wait_for("a newer snapshot", lambda: snapshot_of(broker) not in seen, SOON_S)
        seen.add(snapshot_of(broker))
        assert_has_the_truth(node, plane.database)
        assert head == node.position
    assert node.snapshots == 1
    newcomer = ToyNode(broker, KEY, Path(f"{node._path}.2"))
    assert_has_the_truth(newcomer, plane.database)
    assert broker.state().stream.first > 1


@pytest.mark.parametrize(
    "how", ["FLUSHALL", "DEL stream", "XTRIM", "XTRIM all", "XDEL", "XDEL last", "SET stream", "DEL parts", "SET part"]
)
def test_a_broker_whose_contents_are_lost_is_filled_again(
    plane: Plane, node: ToyNode, server: Server, tmp_path: Path, how: str
) -> None:
    assert_has_the_truth(node, plane.database)
    for n in range(3):
        plane.put(rule(f"r{n}"))
        assert_has_the_truth(node, plane.database)
    stream = f"{PREFIX}:deltas"
    pointer = plane.publisher.brokers()["eu"].state().pointer
    match how:
        case "FLUSHALL":
            server.command("FLUSHALL")
        case "DEL stream":
            server.command("DEL", stream)
        case "XTRIM":
            server.command("XTRIM", stream, "MAXLEN", "1")
        case "XTRIM all":
            server.command("XTRIM", stream, "MAXLEN", "0")
        case "XDEL":
            server.command("XDEL", stream, "2-0")
        case "XDEL last":
            server.command("XDEL", stream, "3-0")
        case "SET stream":
            server.command("SET", stream, "x")
        case "DEL parts":
            server.command("DEL", f"{pointer.name}0")
        case "SET part":
            raw = server.command("GET", f"{pointer.name}0")
            server.command("SET", f"{pointer.name}0", raw[:-1] + b"?")
    newcomer = ToyNode(Broker(server.url, key=KEY), KEY, tmp_path / "newcomer.hgs")
    assert_has_the_truth(newcomer, plane.database)
    plane.put(rule("after"))
    assert_has_the_truth(node, plane.database)
    assert_has_the_truth(newcomer, plane.database)


def test_a_broker_restarted_without_its_data_is_filled_again(
    sqlite: Database, own_server: Server, tmp_path: Path
) -> None:
    node = ToyNode(Broker(own_server.url, key=KEY), KEY, tmp_path / "node.hgs")
    with running(sqlite, tmp_path / "snapshots", {"eu": own_server.url}) as plane:
        plane.put(rule("a"))
        assert_has_the_truth(node, sqlite)
        own_server.restart()
        plane.put(rule("b"))
        assert_has_the_truth(node, sqlite)


def test_a_broker_replaced_by_one_with_an_older_copy_is_brought_up_to_date(
    plane: Plane, node: ToyNode, server: Server, tmp_path: Path
) -> None:
    plane.put(rule("a"))
    plane.put(rule("b"))
    assert_has_the_truth(node, plane.database)
    old = {name: server.command("DUMP", name) for name in server.command("KEYS", "*")}
    for n in range(5):
        plane.put(rule(f"r{n}"))
        assert_has_the_truth(node, plane.database)
    server.command("FLUSHALL")
    for name, raw in old.items():
        server.command("RESTORE", name, 0, raw, "REPLACE")
    newcomer = ToyNode(Broker(server.url, key=KEY), KEY, tmp_path / "newcomer.hgs")
    plane.put(rule("c"))
    assert_has_the_truth(newcomer, plane.database)
    assert_has_the_truth(node, plane.database)


@pytest.mark.parametrize("whose", ["another key", "an older epoch", "garbage"])
def test_a_broker_that_holds_something_elses_stream_is_cleared(
    sqlite: Database, server: Server, tmp_path: Path, node: ToyNode, whose: str
) -> None:
    if whose == "garbage":
        server.command("XADD", f"{PREFIX}:deltas", "18446744073709551615-5", "d", "x")
        server.command("SET", f"{PREFIX}:snapshot", "x" * 100)
        server.command("SET", f"{PREFIX}:pulse", "x" * 100)
    else:
        key = b"another key" * 4 if whose == "another key" else KEY
        old = Broker(server.url, key=key)
        epoch = 10**15
        entry = [Entry(Kind.RULE, "not-ours", "{}")]
        for n in range(1, 50):
            raw = encode_delta(key, Position(epoch, n - 1), Position(epoch, n), 1, entry)
            assert old.publish_delta(raw, after_id=f"{n - 1}-0")
        old.pulse(Position(epoch, 49), 1)
        old.close()
    put(sqlite, rule("ours"))
    with running(sqlite, tmp_path / "snapshots", {"eu": server.url}) as plane:
        assert_has_the_truth(node, sqlite)
        plane.put(rule("ours too"))
        assert_has_the_truth(node, sqlite)
        assert (Kind.RULE, "not-ours") not in node.bodies


def test_forged_deltas_are_cleared_away_and_the_truth_goes_on(plane: Plane, node: ToyNode, server: Server) -> None:
    plane.put(rule("a"))
    assert_has_the_truth(node, plane.database)
    forged = encode_delta(
        b"f" * 32, node.position, Position(node.position.epoch, 99), 1, [Entry(Kind.RULE, "evil", "{}")]
    )
    server.command("XADD", f"{PREFIX}:deltas", "99-0", "d", forged)
    plane.put(rule("b"))
    assert_has_the_truth(node, plane.database)
    assert (Kind.RULE, "evil") not in node.bodies
    newcomer = ToyNode(Broker(server.url, key=KEY), KEY, Path(f"{node._path}.2"))
    assert_has_the_truth(newcomer, plane.database)


def test_a_dead_region_holds_up_no_other_and_is_told_all_when_it_is_back(
    sqlite: Database, server: Server, own_server: Server, tmp_path: Path, node: ToyNode
) -> None:
    far = ToyNode(Broker(own_server.url, key=KEY), KEY, tmp_path / "far.hgs")
    own_server.kill9()
    with running(sqlite, tmp_path / "snapshots", {"eu": server.url, "us": own_server.url}) as plane:
        plane.put(rule("a"))
        assert_has_the_truth(node, sqlite)
        error = wait_for("the error is shown", lambda: _error(sqlite, "us"), SOON_S)
        assert str(own_server.port) in error
        own_server.restart()
        assert_has_the_truth(far, sqlite)
        wait_for("the error is over", lambda: _error(sqlite, "us") is None, SOON_S)
        own_server.stop_signal()
        plane.put(rule("b"))
        assert_has_the_truth(node, sqlite)
        own_server.cont()
        assert_has_the_truth(far, sqlite)


def _noted(database: Database, region: str) -> Position | None:
    with database.read() as tx:
        return outbox.position(tx, region)


def _error(database: Database, region: str) -> str | None:
    with database.read() as tx:
        return {found.name: found.error for found in outbox.regions(tx)}.get(region)
