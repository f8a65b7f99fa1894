"""What a control plane sends: how it is written, and how the engine takes it over."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import Limiter
from headgate.errors import ConfigError, FeedError
from headgate.feed import START, Entry, Kind, Position
from headgate.feed.codec import (
    check_key,
    decode_delta,
    encode_delta,
    feed_token,
    read_snapshot,
    seal,
    snapshot_position,
    unseal,
    write_snapshot,
)

KEY = b"k" * 32
OTHER_KEY = b"o" * 32


def at(version: int, epoch: int = 7) -> Position:
    return Position(epoch, version)


def entry(kind: str, name: str, body: dict[str, Any] | None) -> Entry:
    return Entry(Kind.of(kind), name, None if body is None else json.dumps(body))


def rule(name: str, limit: str = "1/minute", **more: Any) -> Entry:
    return entry("rule", name, {"name": name, "by": "user", "limit": limit, **more})


def snapshot(path: Path, position: Position, *entries: Entry) -> str:
    with path.open("wb") as file:
        write_snapshot(file, KEY, position, 1, entries)
    return str(path)


def delta(since: int, to: int, *entries: Entry, key: bytes = KEY, epoch: int = 7) -> bytes:
    return encode_delta(key, at(since, epoch), at(to, epoch), 1, entries)


@pytest.fixture
def limiter(tmp_path: Path) -> Limiter:
    limiter = Limiter()
    limiter.apply_snapshot(snapshot(tmp_path / "start.hgs", at(1), rule("a", "2/minute")), KEY)
    return limiter


def allowed(limiter: Limiter, times: int, **facts: Any) -> int:
    return sum(bool(limiter.check(**facts)) for _ in range(times))


entries_strategy = st.lists(
    st.builds(Entry, st.sampled_from(list(Kind)), st.text(min_size=1, max_size=40), st.none() | st.text(max_size=400)),
    max_size=40,
)


@given(entries_strategy, st.integers(0, 2**50), st.integers(0, 2**50))
def test_a_delta_reads_back_as_it_was_written(entries: list[Entry], since: int, more: int) -> None:
    read = decode_delta(KEY, encode_delta(KEY, at(since), at(since + more), 5, entries))
    assert (read.since, read.to, read.at_us) == (at(since), at(since + more), 5)
    assert {(e.kind, e.id): e.body for e in read.entries} == {(e.kind, e.id): e.body for e in entries}


@given(entries_strategy)
def test_a_snapshot_reads_back_as_it_was_written(entries: list[Entry]) -> None:
    file = io.BytesIO()
    assert write_snapshot(file, KEY, at(9), 5, entries) == len(entries)
    assert snapshot_position(file.getvalue()) == at(9)
    assert list(read_snapshot(io.BytesIO(file.getvalue()), KEY)) == entries


def test_positions_are_ordered_by_epoch_first() -> None:
    assert START < at(1) < at(2) < Position(8, 1)
    assert Position.parse(str(at(12))) == at(12)
    for wrong in ("", "7", "7.", "7.1.2", "-1.2", "a.b", " 7.1"):
        with pytest.raises(ValueError, match=r"EPOCH\.VERSION"):
            Position.parse(wrong)


def test_notes_are_sealed_and_weak_keys_refused() -> None:
    assert unseal(KEY, seal(KEY, b"note")) == b"note"
    for forged in (seal(OTHER_KEY, b"note"), b"", seal(KEY, b"note") + b"!"):
        with pytest.raises(FeedError) as caught:
            unseal(KEY, forged)
        assert caught.value.reason == "forged"
    with pytest.raises(ConfigError, match="too weak: 5 bytes"):
        check_key(b"short")
    assert feed_token(KEY) != feed_token(OTHER_KEY)


def test_every_kind_of_entry_is_taken_over(limiter: Limiter) -> None:
    applied = limiter.apply_delta(
        delta(
            1,
            2,
            entry("override", "user:7", {"user": "7", "limit": "3/minute"}),
            entry("block", "b1", {"id": "b1", "ip": "203.0.113.0/24", "why": "abuse"}),
            entry("block", "b2", {"id": "b2", "org": "bad"}),
            entry("tier", "gold", {"name": "gold"}),
        ),
        KEY,
    )
    assert (applied.epoch, applied.version, applied.entries, applied.refused) == (7, 2, 4, [])
    assert limiter.feed_position() == (7, 2)
    assert allowed(limiter, 9, user="1") == 2
    assert allowed(limiter, 9, user="7") == 3
    assert limiter.check(user="2", ip="203.0.113.200").path == "blocked"
    assert limiter.check(user="2", org="bad").path == "blocked"
    gone = [entry("override", "user:7", None), entry("block", "b1", None), entry("rule", "a", None)]
    limiter.apply_delta(delta(2, 3, *gone), KEY)
    assert limiter.check(user="7", ip="203.0.113.200").path == "no_rule"
    assert limiter.check(org="bad").path == "blocked"


def test_an_operators_block_beats_an_allow_of_any_priority(limiter: Limiter) -> None:
    office = entry(
        "rule", "office", {"name": "office", "match": {"ip": "10.0.0.0/8"}, "action": "allow", "priority": 10**6}
    )
    limiter.apply_delta(delta(1, 2, office, entry("block", "b1", {"id": "b1", "ip": "10.9.0.0/16"})), KEY)
    assert limiter.check(ip="10.1.1.1").path == "exempt"
    assert limiter.check(ip="10.9.1.1").path == "blocked"


def test_a_delta_that_is_known_changes_nothing_and_one_that_overlaps_is_taken(limiter: Limiter) -> None:
    limiter.apply_delta(delta(1, 3, rule("a", "3/minute")), KEY)
    assert limiter.apply_delta(delta(1, 2, rule("a", "9/minute")), KEY).entries == 0
    assert limiter.apply_delta(delta(2, 4, rule("a", "4/minute")), KEY).entries == 1
    assert allowed(limiter, 9, user="1") == 4


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (delta(2, 3), "gap"),
        (delta(1, 2, epoch=8), "gap"),
        (delta(1, 2, key=OTHER_KEY), "forged"),
        (delta(1, 2)[:-1], "forged"),
        (b"", "corrupt"),
        (b"HGD1", "corrupt"),
        (b"nonsense" * 10, "corrupt"),
    ],
)
def test_what_does_not_follow_or_is_not_ours_is_refused(limiter: Limiter, raw: bytes, reason: str) -> None:
    with pytest.raises(FeedError) as caught:
        limiter.apply_delta(raw, KEY)
    assert caught.value.reason == reason
    assert limiter.feed_position() == (7, 1)


def test_an_older_epoch_is_known_already(limiter: Limiter) -> None:
    assert limiter.apply_delta(delta(0, 99, rule("a", "9/minute"), epoch=6), KEY).entries == 0


def test_an_entry_this_node_cannot_read_leaves_what_was_there(limiter: Limiter) -> None:
    newer = entry("rule", "a", {"name": "a", "by": "user", "limit": "9/minute", "from_the_future": 1})
    misnamed = rule("b")
    applied = limiter.apply_delta(delta(1, 2, newer, Entry(Kind.RULE, "c", misnamed.body), rule("d", priority=1)), KEY)
    assert [(kind, name) for kind, name, _ in applied.refused] == [("rule", "a"), ("rule", "c")]
    assert "from_the_future" in applied.refused[0][2]
    assert limiter.feed_position() == (7, 2)
    assert allowed(limiter, 9, user="1") == 2


def test_a_snapshot_replaces_everything(limiter: Limiter, tmp_path: Path) -> None:
    limiter.apply_delta(delta(1, 2, entry("block", "b1", {"id": "b1", "user": "1"}), entry("switch", "*", {})), KEY)
    limiter.apply_snapshot(snapshot(tmp_path / "new.hgs", at(1, epoch=8), rule("b", "3/minute")), KEY)
    assert limiter.feed_position() == (8, 1)
    assert allowed(limiter, 9, user="1") == 3


def test_a_damaged_snapshot_changes_nothing(limiter: Limiter, tmp_path: Path) -> None:
    path = tmp_path / "new.hgs"
    snapshot(path, at(5), *(rule(f"r{n}") for n in range(200)))
    whole = path.read_bytes()
    chosen = random.Random(1)
    damaged = [whole[:length] for length in (0, 3, 27, len(whole) // 2, len(whole) - 1)] + [whole + b"x"]
    for _ in range(50):
        flipped = bytearray(whole)
        flipped[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
        damaged.append(bytes(flipped))
    for raw in damaged:
        path.write_bytes(raw)
        with pytest.raises(FeedError):
            limiter.apply_snapshot(str(path), KEY)
    assert limiter.feed_position() == (7, 1)
    assert allowed(limiter, 9, user="1") == 2
    with pytest.raises(OSError, match=r"nowhere\.hgs"):
        limiter.apply_snapshot(str(tmp_path / "nowhere.hgs"), KEY)


def authentic(magic: bytes, rest: bytes) -> bytes:
    import hashlib
    import hmac

    return magic + rest + hmac.digest(KEY, magic + rest, hashlib.sha256)


@given(st.binary(max_size=200), st.sampled_from([b"HGD1", b"HGS1"]))
def test_nonsense_with_the_right_key_is_refused(rest: bytes, magic: bytes) -> None:
    limiter = Limiter()
    with pytest.raises(FeedError):
        limiter.apply_delta(authentic(magic, rest), KEY)
    with pytest.raises(FeedError):
        decode_delta(KEY, authentic(magic, rest))


class TestKillSwitch:
    def take(self, limiter: Limiter, entries: Iterable[Entry]) -> None:
        version = limiter.feed_position()[1]
        limiter.apply_delta(delta(version, version + 1, *entries), KEY)

    def test_a_rule_is_evaluated_and_not_enforced(self, limiter: Limiter) -> None:
        self.take(limiter, [entry("switch", "a", {"id": "a"})])
        assert allowed(limiter, 5, user="1") == 5
        results = limiter.check(user="1").results
        assert [(result.rule, result.shadow, result.allowed) for result in results] == [("a", True, False)]
        self.take(limiter, [entry("switch", "a", None)])
        assert not limiter.check(user="1")

    def test_it_stays_in_its_competition(self, limiter: Limiter) -> None:
        weaker = rule("weaker", "1/minute", priority=1)
        self.take(limiter, [weaker, entry("switch", "a", {"id": "a"})])
        assert allowed(limiter, 5, user="1") == 5, "the weaker rule must not take over"

    def test_it_holds_for_a_rule_that_comes_later_or_changes(self, limiter: Limiter) -> None:
        self.take(limiter, [entry("switch", "later", {"id": "later"})])
        self.take(limiter, [rule("later", "1/minute", priority=200)])
        assert allowed(limiter, 5, user="1") == 5
        self.take(limiter, [rule("later", "2/minute", priority=200)])
        assert allowed(limiter, 5, user="1") == 5
        self.take(limiter, [entry("switch", "later", None)])
        assert allowed(limiter, 5, user="2") == 2

    def test_all_rules_at_once_but_not_an_operators_block(self, limiter: Limiter) -> None:
        bad = entry("rule", "bad", {"name": "bad", "match": {"ip": "198.51.100.0/24"}, "action": "block"})
        self.take(limiter, [bad, entry("block", "b1", {"id": "b1", "ip": "203.0.113.0/24"})])
        assert limiter.check(user="1", ip="198.51.100.1").path == "blocked"
        self.take(limiter, [entry("switch", "*", {"id": "*"})])
        assert allowed(limiter, 9, user="1", ip="198.51.100.1") == 9
        assert limiter.check(user="1", ip="203.0.113.1").path == "blocked"
        explained = json.loads(limiter.explain(user="1", ip="198.51.100.1"))
        told = {candidate["rule"]: candidate for candidate in explained["candidates"]}
        assert told["bad"]["why"] == "the kill switch turned it to shadow"
        assert told["a"]["switched"]


class TestKeys:
    SECRET = b"s" * 32

    def key(self, name: str, **more: Any) -> Entry:
        return entry("key", name, {"id": name, "hash": self.digest(f"hgk_{name}"), "user": "7", **more})

    def digest(self, value: str) -> str:
        import hashlib
        import hmac

        return hmac.new(self.SECRET, value.encode(), hashlib.sha256).hexdigest()

    def test_keys_come_change_and_end(self, tmp_path: Path) -> None:
        limiter = Limiter()
        limiter.take_keys_from_feed(self.SECRET)
        limiter.apply_snapshot(snapshot(tmp_path / "s.hgs", at(1), self.key("k1"), self.key("k2", tier="pro")), KEY)
        assert limiter.identify(api_key="hgk_k2").facts() == {"user": "7", "tier": "pro", "api_key": "k2"}
        revoked = self.key("k1", revoked="2020-01-01T00:00:00Z", revoked_by="me")
        limiter.apply_delta(delta(1, 2, revoked, self.key("k3", org="acme"), entry("key", "k2", None)), KEY)
        assert limiter.identify(api_key="hgk_k1").error == "the API key was revoked"
        assert limiter.identify(api_key="hgk_k2").error == "the API key is not known"
        assert limiter.identify(api_key="hgk_k3").org == "acme"

    def test_a_key_that_was_revoked_has_ended_whatever_the_clock_says(self, tmp_path: Path) -> None:
        """When it was is told by the control plane's clock, which may be ahead of the node's."""
        limiter = Limiter()
        limiter.take_keys_from_feed(self.SECRET)
        ahead = self.key("k1", revoked="2999-01-01T00:00:00Z", revoked_by="me")
        limiter.apply_snapshot(snapshot(tmp_path / "s.hgs", at(1), ahead, self.key("k2")), KEY)
        assert limiter.identify(api_key="hgk_k1").error == "the API key was revoked"
        limiter.apply_delta(delta(1, 2, self.key("k2", revoked="2999-01-01T00:00:00Z")), KEY)
        assert limiter.identify(api_key="hgk_k2").error == "the API key was revoked"

    def test_used_keys_are_told_once(self, tmp_path: Path) -> None:
        limiter = Limiter()
        limiter.take_keys_from_feed(self.SECRET)
        limiter.apply_snapshot(snapshot(tmp_path / "s.hgs", at(1), self.key("k1"), self.key("k2")), KEY)
        limiter.identify(api_key="hgk_k2")
        assert limiter.take_used_keys(1000) == ["k2"]
        assert limiter.take_used_keys(1000) == []

    def test_keys_of_the_feed_stay_when_how_callers_are_known_changes(self, tmp_path: Path) -> None:
        from headgate import IdentityOptions

        limiter = Limiter()
        limiter.take_keys_from_feed(self.SECRET)
        limiter.apply_snapshot(snapshot(tmp_path / "s.hgs", at(1), self.key("k1")), KEY)
        limiter.set_identity(IdentityOptions(jwt_secret=b"j" * 32))
        assert limiter.identify(api_key="hgk_k1").user == "7"

    def test_a_weak_secret_is_refused(self) -> None:
        with pytest.raises(ValueError, match="too weak"):
            Limiter().take_keys_from_feed(b"short")
