"""The broker's two sides, against a real server."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headgate.errors import BrokerDown, ConfigError, FeedError
from headgate.feed.codec import encode_delta, write_snapshot
from headgate.feed.entry import START, Entry, Kind, Position
from headgate.storage.streams import PREFIX, Broker, Deltas, Nothing, TakeSnapshot
from tests.feed.toy_node import ToyNode
from tests.servers.server import Server
from tests.servers.tls import Authority, tls_front

KEY = b"k" * 32
OTHER_KEY = b"o" * 32
EPOCH = 1_700_000_000_000_000


def at(version: int, epoch: int = EPOCH) -> Position:
    return Position(epoch, version)


def rule(name: str, body: str | None = "{}") -> Entry:
    return Entry(Kind.RULE, name, body)


def delta(since: int, to: int, *entries: Entry, key: bytes = KEY, epoch: int = EPOCH) -> bytes:
    return encode_delta(key, at(since, epoch), at(to, epoch), 1, entries or [rule(f"r{to}")])


def append(broker: Broker, raw: bytes) -> bool:
    return broker.publish_delta(raw, after_id=broker.state().stream.last_id)


def snapshot(broker: Broker, folder: Path, position: Position, *entries: Entry) -> bool:
    path = folder / "made.hgs"
    with path.open("wb") as file:
        write_snapshot(file, KEY, position, 1, entries)
    return broker.publish_snapshot(str(path), broker.state(), at_us=1) is not None


def test_deltas_are_read_in_order_from_where_the_reader_stands(broker: Broker) -> None:
    raws = [delta(n - 1, n) for n in range(1, 6)]
    for raw in raws:
        assert append(broker, raw)
    assert broker.read(at(0), 10) == Deltas(tuple(raws), at(5))
    assert broker.read(at(3), 10) == Deltas(tuple(raws[3:]), at(5))
    assert broker.read(at(5), 10) == Nothing(None)


def test_a_reader_in_the_middle_of_a_delta_may_take_it(broker: Broker) -> None:
    raw = delta(0, 10)
    append(broker, raw)
    assert broker.read(at(7), 10) == Deltas((raw,), at(10))


def test_a_waiting_reader_is_woken_by_a_delta(broker: Broker, server: Server) -> None:
    raw = delta(0, 1)
    other = Broker(server.url, key=KEY)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(other.read(at(0), 20_000)))
    reader.start()
    assert append(broker, raw)
    reader.join(20)
    other.close()
    assert found == [Deltas((raw,), at(1))]


def test_a_version_cannot_be_published_twice_nor_out_of_turn(broker: Broker) -> None:
    assert broker.publish_delta(delta(0, 2), after_id="0-0")
    assert not broker.publish_delta(delta(0, 2), after_id="0-0")
    assert not broker.publish_delta(delta(0, 3), after_id="1-0")
    assert broker.publish_delta(delta(0, 3), after_id="2-0")
    assert broker.state().stream.length == 2


def test_a_trimmed_stream_sends_the_reader_to_the_snapshot(broker: Broker, server: Server) -> None:
    for n in range(1, 6):
        append(broker, delta(n - 1, n))
    server.command("XTRIM", f"{PREFIX}:deltas", "MINID", "=", "4-0")
    assert isinstance(broker.read(at(1), 10), TakeSnapshot)
    assert isinstance(broker.read(at(3), 10), Deltas)


@pytest.mark.parametrize("how", ["trimmed to nothing", "deleted"])
def test_an_emptied_stream_is_noticed_by_the_pulse(broker: Broker, server: Server, how: str) -> None:
    append(broker, delta(0, 1))
    broker.pulse(at(1), 5)
    server.command(
        *(["XTRIM", f"{PREFIX}:deltas", "MAXLEN", "0"] if how.startswith("t") else ["DEL", f"{PREFIX}:deltas"])
    )
    assert isinstance(broker.read(at(0), 10), TakeSnapshot)
    up_to_date = broker.read(at(1), 10)
    assert isinstance(up_to_date, Nothing)
    assert up_to_date.pulse is not None
    assert up_to_date.pulse.at_us == 5


def test_a_new_epoch_sends_the_reader_to_the_snapshot_whatever_its_version(broker: Broker) -> None:
    append(broker, delta(2, 3, epoch=EPOCH + 1))
    assert isinstance(broker.read(at(1), 10), TakeSnapshot)
    assert isinstance(broker.read(START, 10), TakeSnapshot)
    broker.pulse(at(3, EPOCH + 1), 5)
    assert isinstance(broker.read(at(100), 10), TakeSnapshot)


def test_an_older_epoch_is_not_followed(broker: Broker) -> None:
    append(broker, delta(0, 9, epoch=EPOCH - 1))
    broker.pulse(at(9, EPOCH - 1), 5)
    assert isinstance(broker.read(at(5), 10), Nothing)


@pytest.mark.parametrize(
    "fields",
    [
        {"d": delta(0, 1, key=OTHER_KEY)},
        {"d": delta(0, 1)[:-1]},
        {"d": b""},
        {"d": delta(0, 2)},  # An authentic one under another's id.
        {"s": b"1"},
        {"x": b"y"},
    ],
    ids=["another key", "cut short", "empty", "replayed", "a bare marker", "another field"],
)
def test_a_forged_entry_is_never_handed_over(broker: Broker, server: Server, fields: dict[str, bytes]) -> None:
    (field, value), *_ = fields.items()
    server.command("XADD", f"{PREFIX}:deltas", "1-0", field, value)
    assert isinstance(broker.read(at(0), 10), Nothing)
    assert broker.items_after(0, 10) == [None]
    assert broker.last_item() is None


def test_what_comes_before_a_forged_entry_is_still_read(broker: Broker, server: Server) -> None:
    raw = delta(0, 1)
    append(broker, raw)
    server.command("XADD", f"{PREFIX}:deltas", "2-0", "d", delta(1, 2, key=OTHER_KEY))
    assert broker.read(at(0), 10) == Deltas((raw,), at(1))


def test_a_marker_sends_those_behind_it_to_the_snapshot(broker: Broker, tmp_path: Path) -> None:
    append(broker, delta(0, 1))
    assert snapshot(broker, tmp_path, at(5), rule("big"))
    assert broker.publish_marker(at(1), at(5), after_id=broker.state().stream.last_id)
    append(broker, delta(5, 6))
    node = ToyNode(broker, KEY, tmp_path / "node.hgs")
    node.position = at(0)
    node.reach(at(6))
    assert (node.snapshots, set(node.bodies)) == (1, {(Kind.RULE, "big"), (Kind.RULE, "r6")})


def test_a_snapshot_of_many_parts_arrives_whole(broker: Broker, tmp_path: Path) -> None:
    entries = [rule(f"r{n}", os.urandom(50_000).hex()) for n in range(40)]
    assert snapshot(broker, tmp_path, at(7), *entries)
    state = broker.state()
    assert state.pointer is not None
    assert state.pointer.parts > 1
    assert state.parts_present
    node = ToyNode(broker, KEY, tmp_path / "node.hgs")
    node.take_snapshot()
    assert node.bodies == {(entry.kind, entry.id): entry.body for entry in entries}
    assert [path.name for path in tmp_path.iterdir() if "draft" in path.name] == []


def test_a_new_snapshot_lets_readers_of_the_old_one_finish_and_then_clears_it_away(
    broker: Broker, server: Server, tmp_path: Path
) -> None:
    snapshot(broker, tmp_path, at(1), rule("a"))
    old = broker.state().pointer
    snapshot(broker, tmp_path, at(2), rule("b"))
    new = broker.state().pointer
    assert old is not None
    assert new is not None
    assert 0 < server.command("TTL", f"{old.name}0") <= 120
    assert server.command("TTL", f"{new.name}0") == -1


def test_the_stream_is_trimmed_to_the_snapshot_before_the_last(broker: Broker, tmp_path: Path) -> None:
    for n in range(1, 10):
        append(broker, delta(n - 1, n))
        if n in (3, 6):
            snapshot(broker, tmp_path, at(n))
    assert [item.to.version for item in broker.items_after(0, 100) if item] == [4, 5, 6, 7, 8, 9]


def test_of_two_publishers_one_moves_the_pointer(broker: Broker, server: Server, tmp_path: Path) -> None:
    seen = broker.state()
    assert snapshot(broker, tmp_path, at(2), rule("a"))
    assert broker.publish_snapshot(str(tmp_path / "made.hgs"), seen, at_us=1) is None
    pointer = broker.state().pointer
    assert pointer is not None
    assert len(server.command("KEYS", f"{PREFIX}:snapshot:*")) == pointer.parts


def test_a_missing_or_forged_snapshot_is_refused_and_the_file_left_alone(
    broker: Broker, server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "kept.hgs"
    path.write_bytes(b"kept")
    with pytest.raises(FeedError, match="no snapshot yet"):
        broker.fetch_snapshot(str(path))
    server.command("SET", f"{PREFIX}:snapshot", b"0" * 100)
    with pytest.raises(FeedError, match="forged"):
        broker.fetch_snapshot(str(path))
    snapshot(broker, tmp_path, at(1))
    pointer = broker.state().pointer
    assert pointer is not None
    server.command("DEL", f"{pointer.name}0")
    assert not broker.state().parts_present
    with pytest.raises(FeedError, match="missing"):
        broker.fetch_snapshot(str(path))
    server.command("SET", f"{pointer.name}0", b"short")
    with pytest.raises(FeedError, match="no snapshot"):
        broker.fetch_snapshot(str(path))
    assert path.read_bytes() == b"kept"
    assert {entry.name for entry in tmp_path.iterdir()} == {"kept.hgs", "made.hgs"}


def test_a_stream_is_deleted_only_if_it_is_the_one_that_was_seen(broker: Broker, server: Server) -> None:
    append(broker, delta(0, 1))
    seen = broker.state().stream
    append(broker, delta(1, 2))
    assert not broker.reset_stream(seen)
    assert broker.reset_stream(broker.state().stream)
    server.command("SET", f"{PREFIX}:deltas", "what is this")
    state = broker.state().stream
    assert state.kind == "other"
    assert broker.reset_stream(state)
    assert broker.state().stream.kind == "none"


def test_heartbeats_are_read_back_and_forged_ones_left_out(broker: Broker, server: Server) -> None:
    broker.beat("n1", {"id": "n1", "position": "1.2"})
    server.command("HSET", f"{PREFIX}:nodes", "n2", b'{"id":"n2"}')
    server.command("HSET", f"{PREFIX}:nodes", "n3", server.command("HGET", f"{PREFIX}:nodes", "n1"))
    assert broker.nodes() == {"n1": {"id": "n1", "position": "1.2"}}
    assert server.command("HLEN", f"{PREFIX}:nodes") == 1, "the others are not read again"
    broker.forget_nodes(["n1", "n2", "n3"])
    assert server.command("HLEN", f"{PREFIX}:nodes") == 0


@pytest.mark.parametrize("mischief", ["too many", "another type"])
def test_a_place_for_heartbeats_that_somebody_spoilt_is_cleared(
    broker: Broker, server: Server, monkeypatch: pytest.MonkeyPatch, mischief: str
) -> None:
    monkeypatch.setattr("headgate.storage.streams.NODES_MAX", 5)
    if mischief == "too many":
        for number in range(6):
            server.command("HSET", f"{PREFIX}:nodes", f"n{number}", b"x")
    else:
        server.command("SET", f"{PREFIX}:nodes", "x")
    assert broker.nodes() == {}
    broker.beat("n1", {"id": "n1", "position": "1.2"})
    assert list(broker.nodes()) == ["n1"]


def test_keys_of_the_wrong_type_are_no_notes(broker: Broker, server: Server) -> None:
    for name in ("pulse", "snapshot"):
        server.command("RPUSH", f"{PREFIX}:{name}", "x")
    state = broker.state()
    assert (state.pointer, state.pulse, state.pointer_raw) == (None, None, b"")


def test_a_dead_broker_is_an_error_that_does_not_show_the_password() -> None:
    with Server(password="hush-hush") as server:
        broker = Broker(server.url, key=KEY)
        broker.pulse(at(1), 1)
        assert "hush" not in repr(broker)
        server.kill9()
        with pytest.raises(BrokerDown) as raised:
            broker.read(at(1), 10)
        assert "hush" not in str(raised.value)
        assert str(server.port) in str(raised.value)
        broker.close()
        server.restart()
        wrong = Broker(server.url_for("", "not-it"), key=KEY)
        with pytest.raises(BrokerDown) as raised:
            wrong.state()
        assert "not-it" not in str(raised.value)
        wrong.close()


def test_it_connects_by_unix_socket_and_by_tls(server: Server, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with tls_front(server.port, authority) as front:
        urls = [server.unix_url, f"rediss://127.0.0.1:{front.port}?ca={authority.certificate}"]
        for version, url in enumerate(urls, 1):
            broker = Broker(url, key=KEY)
            broker.pulse(at(version), 1)
            pulse = broker.last_pulse()
            broker.close()
            assert pulse is not None
            assert pulse.position == at(version)
        untrusted = Broker(f"rediss://127.0.0.1:{front.port}", key=KEY)
        with pytest.raises(BrokerDown):
            untrusted.last_pulse()
        untrusted.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://:pw@h", "expected redis://"),
        ("redis://:pw@h?ca=/x", "rediss://"),
        ("redis://:pw@h?socket_timeout=9999", "no option"),
        ("redis://:pw@h:port", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_a_brokers_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        Broker(url, key=KEY)
    assert "pw" not in str(raised.value)


def test_a_weak_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="too weak"):
        Broker("redis://localhost", key=b"short")
