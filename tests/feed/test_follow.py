"""Following a feed: what is enforced is what the control plane last said, whatever becomes of its sources."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.feed.entry import Entry, Kind, Position
from headgate.storage.streams import PREFIX, Broker
from headgate.upkeep.feed import NoRules, http_source
from tests.feed.following import SOON_S, Following, following
from tests.feed.toy_control import KEY, ToyControl, ToyFeed
from tests.servers.server import Server
from tests.servers.waiting import wait_for

AWAY = "redis://127.0.0.1:1"


@pytest.fixture
def control(tmp_path: Path) -> ToyControl:
    control = ToyControl(tmp_path / "control")
    control.rule("first")
    return control


@pytest.fixture
def feed(control: ToyControl) -> Iterator[ToyFeed]:
    with ToyFeed(control) as feed:
        yield feed


def test_a_change_is_enforced_and_what_is_gone_is_gone(server: Server, broker: Broker, control: ToyControl) -> None:
    control.publish_snapshot(broker)
    with following(server.url) as node:
        assert node.rules() == {"first"}
        control.publish(broker, control.rule("second"))
        control.publish(broker, control.change(Entry(Kind.RULE, "first", None)))
        node.has_what(control)
        assert node.rules() == {"second"}


def test_an_http_feed_is_followed_without_a_broker(control: ToyControl, feed: ToyFeed) -> None:
    with following(feed.url) as node:
        for name in "abcde":
            control.rule(name)
        node.has_what(control)
        assert node.follower.status().stale_s < 20


def test_a_heartbeat_says_what_is_enforced_soon_after_each_change(control: ToyControl, feed: ToyFeed) -> None:
    with following(feed.url) as node:
        node.limiter.used_keys = ["k1", "k2"]
        control.rule("second", '{"refuse me": 1}')

        def told() -> list[dict[str, object]]:
            return [beat for beat in feed.heartbeats() if beat["position"] == str(control.position)]

        beat = wait_for("a heartbeat of the new version", told, SOON_S, node.describe)[0]
        assert (beat["id"], beat["region"], beat["rules"]) == ("n1", "r1", 1)
        assert beat["store"] == {"shards": [{"name": "s1", "breaker": "closed", "connected": True}]}
        assert beat["refused"] == [{"kind": "rule", "id": "second", "message": "it asks for it"}]
        assert isinstance(beat["lag_ms"], float)
        used = {key for one in feed.heartbeats() for key in one["used_keys"]}  # type: ignore[attr-defined]
        assert used == {"k1", "k2"}


def test_heartbeats_reach_the_broker_sealed(server: Server, broker: Broker, control: ToyControl) -> None:
    control.publish_snapshot(broker)
    with following(server.url):
        beat = wait_for("a heartbeat", lambda: broker.nodes().get("n1"), SOON_S)
        assert beat["position"] == str(control.position)


def test_used_keys_are_told_until_a_heartbeat_arrives(control: ToyControl, feed: ToyFeed) -> None:
    with following(feed.url) as node:
        feed.process.kill()
        node.limiter.used_keys = ["k1"]
        wait_for("the loss", lambda: node.follower.status().source is None, SOON_S)
        feed.restart()
        wait_for("k1", lambda: any("k1" in str(beat["used_keys"]) for beat in feed.heartbeats()), SOON_S)


def test_a_node_restarted_with_everything_away_enforces_the_last_version(
    server: Server, broker: Broker, control: ToyControl, tmp_path: Path
) -> None:
    control.publish_snapshot(broker)
    kept = tmp_path / "rules.hgs"
    with following(server.url, kept) as node:
        for name in "abc":
            control.publish(broker, control.rule(name))
        node.has_what(control)
    with following(AWAY, kept) as node:
        node.has_what(control)
        assert node.follower.status().source is None
        assert "Connection refused" in str(node.follower.status().error)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("rules.hgs*")} == {0o600}


def test_a_restarted_node_goes_on_from_its_disk_with_deltas_alone(
    server: Server, broker: Broker, control: ToyControl, tmp_path: Path
) -> None:
    control.publish_snapshot(broker)
    kept = tmp_path / "rules.hgs"
    with following(server.url, kept):
        pass
    control.publish(broker, control.rule("second"))
    server.command("DEL", f"{PREFIX}:snapshot")
    with following(server.url, kept) as node:
        node.has_what(control)


@pytest.mark.usefixtures("impatient")
def test_without_any_source_or_disk_the_error_names_each_and_why(tmp_path: Path) -> None:
    node = Following(f"{AWAY},http://127.0.0.1:2,{tmp_path}/none.hgs", tmp_path / "rules.hgs")
    node.follower.start()
    try:
        with pytest.raises(NoRules) as caught:
            node.follower.first(SOON_S)
    finally:
        node.follower.stop()
    words = str(caught.value)
    assert AWAY in words
    assert "http://127.0.0.1:2: cannot be asked: [Errno 111] Connection refused" in words
    assert "none.hgs: cannot be read: No such file" in words


def test_a_folder_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no folder .*nowhere; make it"):
        Following(AWAY, tmp_path / "nowhere" / "rules.hgs").follower.start()


def test_a_second_process_only_reads_the_disk_and_says_so(control: ToyControl, feed: ToyFeed, tmp_path: Path) -> None:
    kept = tmp_path / "rules.hgs"
    with following(feed.url, kept) as first:
        control.rule("second")
        first.has_what(control)
        before = sorted((path.name, path.read_bytes()) for path in tmp_path.glob("rules.hgs*"))
        with following(AWAY, kept) as second:
            assert second.log.has("warning", "another process keeps its rules there")
            assert not second.follower.status().is_kept_on_disk
            second.has_what(control)
        assert before == sorted((path.name, path.read_bytes()) for path in tmp_path.glob("rules.hgs*"))


def test_the_next_of_the_ladder_is_followed_until_the_first_is_back(
    server: Server, broker: Broker, control: ToyControl, feed: ToyFeed
) -> None:
    control.publish_snapshot(broker)
    with following(f"{feed.url},{server.url}") as node:
        node.uses(feed.url)
        feed.process.kill()
        node.uses(server.address)
        control.publish(broker, control.rule("second"))
        node.has_what(control)
        feed.restart()
        node.uses(feed.url)
        control.rule("third")
        node.has_what(control)


def test_a_source_that_hangs_is_left_for_the_next(broker: Broker, control: ToyControl, feed: ToyFeed) -> None:
    with Server() as hung, following(f"{hung.url},{feed.url}") as node:
        node.uses(feed.url)
        first = Broker(hung.url, key=KEY)
        control.publish_snapshot(first)
        node.uses(hung.address)
        hung.stop_signal()
        node.uses(feed.url)
        control.rule("second")
        node.has_what(control)
        hung.cont()
        first.close()


def test_a_control_plane_that_hangs_is_left_for_the_next(
    server: Server, broker: Broker, control: ToyControl, feed: ToyFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_source, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(http_source.HttpSource, "wait_s", 0.5)
    control.publish_snapshot(broker)
    with following(f"{feed.url},{server.url}") as node:
        feed.process.hang()
        node.uses(server.address)
        control.publish(broker, control.rule("second"))
        node.has_what(control)
        feed.process.send(signal.SIGCONT)
        node.uses(feed.url)


def test_an_older_epoch_never_comes_back(
    server: Server, broker: Broker, control: ToyControl, tmp_path: Path, feed: ToyFeed
) -> None:
    old = ToyControl(tmp_path / "old", epoch=control.position.epoch - 5)
    for name in "abcdef":
        old.rule(name)
    old.publish_snapshot(broker)
    with following(f"{feed.url},{server.url}") as node:
        feed.process.kill()
        wait_for("both tried", lambda: node.follower.status().source != feed.url, SOON_S, node.describe)
        old.publish(broker, old.rule("g"))
        old.pulse(broker)
        time.sleep(1.5)
        assert node.position == control.position
        assert node.rules() == {"first"}


def test_a_new_epoch_is_taken_although_its_version_is_smaller(
    server: Server, broker: Broker, control: ToyControl
) -> None:
    for name in "abc":
        control.rule(name)
    control.publish_snapshot(broker)
    with following(server.url) as node:
        control.new_epoch()
        assert broker.reset_stream(broker.state().stream)
        control.publish_snapshot(broker)
        node.has_what(control)
        control.publish(broker, control.rule("z"))
        node.has_what(control)


def test_the_broker_may_be_emptied_trimmed_restarted_and_forged(
    server: Server, broker: Broker, control: ToyControl
) -> None:
    control.publish_snapshot(broker)
    with following(server.url) as node:
        for name in "abc":
            control.publish(broker, control.rule(name))
        node.has_what(control)

        server.command("FLUSHALL")
        control.rule("while-empty")
        control.publish_snapshot(broker)
        node.has_what(control)

        control.publish(broker, control.rule("d"))
        forged = ToyControl(control.folder / "forger", key=b"f" * 32)
        forged.position = control.position
        server.command("XADD", f"{PREFIX}:deltas", f"{control.position.version + 1}-0", "d", forged.rule("forged"))
        control.rule("e")
        control.publish_snapshot(broker)
        node.has_what(control)
        assert "forged" not in node.rules()

        server.restart()
        control.rule("after-restart")
        control.publish_snapshot(broker)
        node.has_what(control)


def test_a_trimmed_stream_is_healed_by_the_snapshot(server: Server, broker: Broker, control: ToyControl) -> None:
    control.publish_snapshot(broker)
    with following(server.url) as node:
        server.stop_signal()
        server.cont()
        for name in "abc":
            raw = control.rule(name)
            broker.publish_delta(raw, after_id=broker.state().stream.last_id)
            server.command("XTRIM", f"{PREFIX}:deltas", "MAXLEN", "=", "0")
        control.publish_snapshot(broker)
        node.has_what(control)


def test_positions_never_go_back(server: Server, broker: Broker, control: ToyControl, feed: ToyFeed) -> None:
    """A broker that is behind the control plane, used after it."""
    control.publish_snapshot(broker)
    control.rule("second")
    with following(f"{feed.url},{server.url}") as node:
        node.has_what(control)
        feed.process.kill()
        node.uses(server.address)
        time.sleep(0.5)
        assert node.limiter.seen == sorted(node.limiter.seen)
        assert node.position == control.position


def test_what_the_engine_is_told_names_the_source_and_the_error(control: ToyControl, feed: ToyFeed) -> None:
    with following(feed.url) as node:
        wait_for("a good word", lambda: node.limiter.statuses and node.limiter.statuses[-1][2] is None, SOON_S)
        assert node.limiter.statuses[-1][1] == feed.url
        feed.process.kill()
        wait_for("a bad word", lambda: node.limiter.statuses[-1][2], SOON_S, node.describe)
        assert json.dumps(node.limiter.statuses[-1]).count(feed.url) == 1


def test_each_change_is_told_to_whoever_asked(control: ToyControl, feed: ToyFeed) -> None:
    heard: list[Position] = []
    with following(feed.url, on_change=heard.append) as node:
        control.rule("second")
        node.has_what(control)
        assert heard[-1] == control.position


@pytest.mark.usefixtures("impatient")
def test_another_key_is_refused_with_a_hint(control: ToyControl, feed: ToyFeed) -> None:
    node = Following(feed.url, key=b"other" * 8)
    node.follower.start()
    with pytest.raises(NoRules, match="is the feed key here the one of the control plane"):
        node.follower.first(SOON_S)
    node.follower.stop()


def test_a_node_may_be_started_before_what_it_follows(server: Server, broker: Broker, control: ToyControl) -> None:
    node = Following(server.url)
    node.follower.start()
    wait_for("a failure", lambda: node.log.has("warning", "of no use now"), SOON_S)
    control.publish_snapshot(broker)
    node.follower.first(SOON_S)
    node.has_what(control)
    node.follower.stop()
