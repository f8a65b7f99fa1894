"""Who is behind, and waiting until nobody is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate.control.fleet import Fleet
from headgate.control.heartbeats import Heartbeats
from headgate.feed.entry import Kind, Position
from headgate.storage.sql import Database, entries, fleet, outbox
from headgate.storage.streams import PREFIX, Broker
from tests.feed.plane import KEY, Plane, rule
from tests.servers.server import Server
from tests.servers.waiting import wait_for

SOON_S = 20.0


pytestmark = pytest.mark.usefixtures("quick_audits")


def heartbeat(node: str, position: Position | str, **more: Any) -> dict[str, Any]:
    said = {"id": node, "region": "eu", "position": str(position), "at_us": time.time_ns() // 1000, "lag_ms": 3.5}
    return {**said, "store": {"shards": []}, "rules": 7, **more}


class Fleeted:
    """A control plane with its fleet."""

    fleet: Fleet

    def __init__(self, database: Database, folder: Path, regions: dict[str, str]) -> None:
        self.plane = Plane(
            database,
            folder,
            regions,
            heard=lambda region, notes: self.fleet.heard(region, notes),
            hurried=lambda: self.fleet.is_awaited,
        )
        self.fleet = Fleet(database, self.plane.head, log=self.plane.shared.log)
        self.fleet.attach(self.plane.publisher.status, self.plane.publisher.wake)
        self.plane.start()
        self.fleet.start()

    def stop(self) -> None:
        self.fleet.stop()
        self.plane.stop()


@pytest.fixture
def alone(database: Database, tmp_path: Path) -> Iterator[Fleeted]:
    """Without a region: nodes come over HTTP."""
    made = Fleeted(database, tmp_path / "snapshots", {})
    yield made
    made.stop()


@pytest.fixture
def regional(sqlite_url: str, server: Server, tmp_path: Path) -> Iterator[Fleeted]:
    database = Database(sqlite_url)
    made = Fleeted(database, tmp_path / "snapshots", {"eu": server.url})
    yield made
    made.stop()
    database.close()


def nodes_of(fleeted: Fleeted) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in fleeted.fleet.status()["nodes"]}


def test_status_tells_who_is_behind(alone: Fleeted) -> None:
    first = alone.plane.put(rule("a"))
    head = alone.plane.put(rule("b"))
    alone.fleet.beat(heartbeat("n1", head))
    alone.fleet.beat(heartbeat("n2", first))
    status = alone.fleet.status()
    assert status["head"] == str(head)
    told = {node["id"]: (node["behind"], node["alive"], node["region"]) for node in status["nodes"]}
    assert told == {"n1": (0, True, "eu"), "n2": (1, True, "eu")}
    assert status["nodes"][0]["lag_ms"] == 3.5


def test_a_wait_ends_when_the_last_node_has_it(alone: Fleeted) -> None:
    head = alone.plane.put(rule("a"))
    alone.fleet.beat(heartbeat("n1", head))
    alone.fleet.beat(heartbeat("n2", Position(head.epoch, 0)))
    early = alone.fleet.wait(head, 0.0)
    assert (early["done"], early["live"], [node["id"] for node in early["behind"]]) == (False, 2, ["n2"])
    answers: list[dict[str, Any]] = []
    waiter = threading.Thread(target=lambda: answers.append(alone.fleet.wait(head, SOON_S)))
    waiter.start()
    alone.fleet.beat(heartbeat("n2", head))
    waiter.join(SOON_S)
    assert answers == [{"version": str(head), "live": 2, "behind": [], "done": True}]


def test_a_node_of_a_newer_epoch_has_it_and_one_of_an_older_has_not(alone: Fleeted) -> None:
    head = alone.plane.put(rule("a"))
    alone.fleet.beat(heartbeat("newer", Position(head.epoch + 1, 0)))
    alone.fleet.beat(heartbeat("older", Position(head.epoch - 1, 99)))
    assert [node["id"] for node in alone.fleet.wait(head, 0.0)["behind"]] == ["older"]
    assert nodes_of(alone)["older"]["behind"] == 1


def test_other_control_planes_and_nodes_that_read_the_database_are_seen(alone: Fleeted, tmp_path: Path) -> None:
    head = alone.plane.put(rule("a"))
    alone.fleet.beat(heartbeat("mine", head))
    wait_for("it is written", lambda: _rows(alone.plane.database) == ["mine"], SOON_S)
    with alone.plane.database.aside() as tx:
        fleet.put(tx, [fleet.Beat("theirs", None, head, datetime.now(UTC), "{}")])
    other = Fleet(alone.plane.database, alone.plane.head, log=alone.plane.shared.log)
    assert {node["id"] for node in other.status()["nodes"]} == {"mine", "theirs"}
    assert other.wait(head, 0.0)["live"] == 2


def test_keys_that_were_used_are_noted_without_a_version(alone: Fleeted) -> None:
    head = alone.plane.put((Kind.KEY, "k1", '{"hash":"' + "0" * 64 + '","id":"k1"}'))
    alone.fleet.beat(heartbeat("n1", head, used_keys=["k1", "no such", "k1", 5, "\x00"]))

    def used() -> datetime | None:
        with alone.plane.database.read() as tx:
            found = entries.get(tx, Kind.KEY, "k1")
            assert found is not None
            assert tx.head == head
            return found.last_used

    wait_for("it is noted", used, SOON_S)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 5},
        {"id": ""},
        {"id": "x" * 200},
        {"id": "a\x00b"},
        {"position": "one"},
        {"position": None},
        {"at_us": "now"},
        {"at_us": None},
        {"at_us": True},
        {"region": ["eu"]},
        # More than a database holds: it would keep all others from being written.
        {"id": "節" * 100},
        {"region": "節" * 100},
        {"position": "9999999999999999999.1"},
        {"position": "1.9999999999999999999"},
        {"at_us": 10**30},
    ],
    ids=str,
)
def test_what_is_no_heartbeat_is_passed_over(wrong: dict[str, Any]) -> None:
    beats = Heartbeats()
    assert not beats.take({**heartbeat("n1", "1.1"), **wrong}, datetime.now(UTC), is_fresh=True)
    assert beats.all() == []


def test_strange_but_harmless_heartbeats_can_be_written(alone: Fleeted) -> None:
    head = alone.plane.put(rule("a"))
    alone.fleet.beat(heartbeat("n1", head, note="\x00\ud800", more="x" * 100_000))
    alone.fleet.beat(heartbeat("n2", head))
    wait_for("both are written", lambda: _rows(alone.plane.database) == ["n1", "n2"], SOON_S)


def test_a_node_not_heard_of_is_not_alive_and_at_last_forgotten() -> None:
    beats, start = Heartbeats(), datetime.now(UTC)
    beats.take(heartbeat("n1", "1.1"), start, is_fresh=True)
    (node,) = beats.all()
    assert node.is_alive(start + timedelta(seconds=9))
    assert not node.is_alive(start + timedelta(seconds=11))
    assert beats.forget(start + timedelta(hours=23)) == []
    assert beats.forget(start + timedelta(hours=25)) == ["n1"]
    assert beats.all() == []


def test_a_node_whose_clock_is_wrong_is_alive_once_its_heart_is_seen_to_beat() -> None:
    beats, start = Heartbeats(), datetime.now(UTC)
    old_us = round((start - timedelta(days=3)).timestamp() * 1e6)
    beats.take(heartbeat("n1", "1.1", at_us=old_us), start, is_fresh=False)
    (node,) = beats.all()
    assert not node.is_alive(start)
    assert beats.forget(start) == []
    assert not beats.take(heartbeat("n1", "1.1", at_us=old_us), start, is_fresh=False)
    assert beats.take(heartbeat("n1", "1.1", at_us=old_us + 2_000_000), start, is_fresh=False)
    (node,) = beats.all()
    assert node.is_alive(start)


def test_a_heartbeat_that_comes_late_does_not_undo_a_newer_one() -> None:
    beats, now = Heartbeats(), datetime.now(UTC)
    beats.take(heartbeat("n1", "1.2", at_us=20), now, is_fresh=True)
    assert not beats.take(heartbeat("n1", "1.1", at_us=10), now, is_fresh=True)
    assert [node.position for node in beats.all()] == [Position(1, 2)]


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_node_whose_clock_was_set_back_is_still_heard(is_fresh: bool) -> None:
    """Else a change would count as enforced everywhere while this node has not got it."""
    beats, now = Heartbeats(), datetime.now(UTC)
    hour_us = 3600 * 1_000_000
    beats.take(heartbeat("n1", "1.2", at_us=2 * hour_us), now, is_fresh=is_fresh, place="eu")
    later = now + timedelta(seconds=60)
    assert beats.take(heartbeat("n1", "1.1", at_us=hour_us), later, is_fresh=is_fresh, place="eu")
    (node,) = beats.all()
    assert (node.position, node.is_alive(later)) == (Position(1, 1), True)


def test_what_a_node_left_in_a_broker_that_it_does_not_use_any_more_is_not_heard_again() -> None:
    beats, now = Heartbeats(), datetime.now(UTC)
    hour_us = 3600 * 1_000_000
    for region in ("eu", "us"):
        beats.take(heartbeat("n1", "1.1", at_us=hour_us), now, is_fresh=False, place=region)
    beats.take(heartbeat("n1", "1.2", at_us=2 * hour_us), now, is_fresh=True)
    for region in ("eu", "us"):
        assert not beats.take(heartbeat("n1", "1.1", at_us=hour_us), now, is_fresh=False, place=region)


def test_a_database_restored_under_a_running_control_plane_begins_a_new_epoch(alone: Fleeted) -> None:
    """Also when no node and no broker tells of it: those that read the database have what it had before."""
    alone.plane.put(rule("a"))
    head = alone.plane.put(rule("b"))
    wait_for("it is told", lambda: alone.plane.head.position == head, SOON_S)
    with alone.plane.database.write() as tx:
        tx._move(Position(head.epoch, head.version - 1))
    found = wait_for("it is noticed", lambda: _head(alone.plane.database).epoch > head.epoch, SOON_S)
    assert found
    wait_for("that is told", lambda: alone.plane.head.position == _head(alone.plane.database), SOON_S)


def _head(database: Database) -> Position:
    with database.read() as tx:
        return tx.head


def test_nodes_are_heard_of_through_their_region(regional: Fleeted, server: Server) -> None:
    head = regional.plane.put(rule("a"))
    broker = Broker(server.url, key=KEY)
    broker.beat("n1", heartbeat("n1", Position(head.epoch, 0), region=None))
    wait_for("it is heard", lambda: nodes_of(regional), SOON_S)
    assert nodes_of(regional)["n1"]["region"] == "eu"
    answers: list[dict[str, Any]] = []
    waiter = threading.Thread(target=lambda: answers.append(regional.fleet.wait(head, SOON_S)))
    waiter.start()
    broker.beat("n1", heartbeat("n1", head))
    waiter.join(SOON_S)
    assert answers[0]["done"]
    server.command("HSET", f"{PREFIX}:nodes", "evil", b'{"id":"evil","position":"1.1","at_us":1}')
    assert set(nodes_of(regional)) == {"n1"}
    broker.close()


def test_regions_are_shown_with_how_far_they_are(regional: Fleeted) -> None:
    head = regional.plane.put(rule("a"))

    def region() -> dict[str, Any]:
        (found,) = regional.fleet.status()["regions"]
        return dict(found)

    wait_for("it is published", lambda: region()["published"] == str(head), SOON_S)
    assert (region()["name"], region()["behind"], region()["error"], region()["lag_s"]) == ("eu", 0, None, 0.0)


def test_a_region_that_fails_is_shown_with_its_error_and_lag(sqlite_url: str, tmp_path: Path) -> None:
    database = Database(sqlite_url)
    with Server() as server:
        made = Fleeted(database, tmp_path / "snapshots", {"us": server.url})
        try:
            wait_for("it is there", lambda: made.plane.publisher.status()[0].position, SOON_S)
            server.kill9()
            made.plane.put(rule("a"))
            # From the database, where other control planes see it; it is written over what was there before.
            wait_for("an error", lambda: _failed(database, "us"), SOON_S)
            (shown,) = made.fleet.status()["regions"]
            assert str(server.port) in shown["error"]
            assert shown["behind"] == 1
            assert shown["lag_s"] > 0
        finally:
            made.stop()
            database.close()


def _rows(database: Database) -> list[str]:
    with database.read() as tx:
        return [beat.node for beat in fleet.all(tx)]


def _failed(database: Database, region: str) -> datetime | None:
    with database.read() as tx:
        return {found.name: found.failed for found in outbox.regions(tx)}[region]
