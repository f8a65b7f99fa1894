"""The real limiter behind a feed: decisions are those of the rules last published."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from headgate import Limiter
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.streams import Broker
from tests.feed.following import SOON_S, following
from tests.feed.toy_control import ToyControl, ToyFeed
from tests.servers.server import Server
from tests.servers.waiting import wait_for

AWAY = "redis://127.0.0.1:1"


@pytest.fixture
def control(tmp_path: Path) -> ToyControl:
    control = ToyControl(tmp_path / "control")
    control.change(rule("everyone", "2/hour"))
    return control


def rule(name: str, limit: str) -> Entry:
    return Entry(Kind.RULE, name, json.dumps({"name": name, "by": "user", "limit": limit}))


def block(user: str) -> Entry:
    return Entry(Kind.BLOCK, "b00000000001", json.dumps({"id": "b00000000001", "user": user, "why": "abuse"}))


def allowed(limiter: Limiter, user: str, times: int) -> int:
    return sum(limiter.check(user=user).allowed for _ in range(times))


def test_checks_follow_the_feed(server: Server, broker: Broker, control: ToyControl) -> None:
    control.publish_snapshot(broker)
    limiter = Limiter()
    with following(server.url, limiter=limiter) as node:
        assert allowed(limiter, "1", 5) == 2
        control.publish(broker, control.change(rule("everyone", "4/hour")))
        node.reaches(control.position)
        assert allowed(limiter, "1", 5) == 2
        control.publish(broker, control.change(block("2")))
        node.reaches(control.position)
        assert allowed(limiter, "2", 1) == 0
        control.publish(broker, control.change(Entry(Kind.BLOCK, "b00000000001", None)))
        node.reaches(control.position)
        assert allowed(limiter, "2", 1) == 1
        assert Position(*limiter.feed_position()) == control.position


def test_what_the_engine_refuses_is_said_and_the_rest_is_enforced(control: ToyControl, tmp_path: Path) -> None:
    limiter = Limiter()
    with ToyFeed(control) as feed, following(feed.url, limiter=limiter) as node:
        control.change(Entry(Kind.RULE, "broken", '{"name": "broken", "limit": "many"}'), rule("everyone", "1/hour"))
        node.reaches(control.position)
        assert allowed(limiter, "1", 3) == 1
        wait_for("a word of it", lambda: any(beat["refused"] for beat in feed.heartbeats()), SOON_S, node.describe)
        assert "broken" in str(node.log)


def test_a_restart_with_everything_away_enforces_the_last_version(
    server: Server, broker: Broker, control: ToyControl, tmp_path: Path
) -> None:
    control.publish_snapshot(broker)
    kept = tmp_path / "rules.hgs"
    with following(server.url, kept, limiter=Limiter()) as node:
        control.publish(broker, control.change(rule("everyone", "3/hour")))
        control.publish(broker, control.change(block("bad")))
        node.reaches(control.position)
    limiter = Limiter()
    with following(AWAY, kept, limiter=limiter) as node:
        assert node.position == control.position
        assert allowed(limiter, "1", 5) == 3
        assert allowed(limiter, "bad", 1) == 0


@pytest.mark.parametrize("tenth", range(10))
def test_the_engine_refuses_a_truncated_snapshot(control: ToyControl, tmp_path: Path, tenth: int) -> None:
    place = tmp_path / "kept.hgs"
    raw = control.snapshot_path.read_bytes()
    place.write_bytes(raw[: len(raw) * tenth // 10])
    limiter = Limiter()
    with ToyFeed(control) as feed, following(feed.url, place, limiter=limiter) as node:
        assert node.log.has("error", "the rules on disk are refused")
        assert node.position == control.position


def test_checks_go_on_while_deltas_and_snapshots_are_taken(server: Server, broker: Broker, control: ToyControl) -> None:
    """Whatever the version, a check is decided by one whole version: the block and the rule change together."""
    control.publish_snapshot(broker)
    limiter = Limiter()
    stop = threading.Event()
    failures: list[BaseException] = []

    def check() -> None:
        try:
            while not stop.is_set():
                limiter.check(user="7")
        except BaseException as error:
            failures.append(error)

    with following(server.url, limiter=limiter) as node:
        thread = threading.Thread(target=check)
        thread.start()
        for number in range(50):
            control.publish(broker, control.change(rule(f"r{number}", "1000000/second"), rule("everyone", "9/second")))
        node.reaches(control.position)
        stop.set()
        thread.join()
        assert not failures
        assert limiter.rule_count() == 51
