"""Reading entries: one, a page with filters, all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from headgate.errors import ConfigError
from headgate.feed import Entry, Kind
from headgate.storage.sql import Database, entries
from tests.storage.made import change, gone, names, put, put_rule, rule

PAST, FUTURE = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


def page(database: Database, kind: Kind, filters: Mapping[str, str], search: str | None = None) -> list[str]:
    with database.read() as tx:
        return names(entries.page(tx, kind, limit=100, filters=filters, search=search))


def test_an_entry_says_who_made_it_and_who_changed_it_last(database: Database) -> None:
    start = datetime.now(UTC) - timedelta(seconds=5)
    change(database, put_rule("a"), who="ada")
    change(database, put_rule("a", rule("a"), priority=7), who="bob")
    with database.read() as tx:
        stored = entries.get(tx, Kind.RULE, "a")
    assert stored is not None
    assert stored.body["priority"] == 7
    assert (stored.version, stored.created_by, stored.updated_by) == (2, "ada", "bob")
    assert start < stored.created <= stored.updated < start + timedelta(minutes=5)
    assert stored.created.tzinfo is UTC


def test_many_are_got_at_once_and_those_that_are_not_there_are_left_out(database: Database) -> None:
    made = [f"r{number}" for number in range(1_100)]
    change(database, *(put_rule(name) for name in made))
    with database.read() as tx:
        found = entries.get_many(tx, Kind.RULE, [*made, "nobody", "a\0b"])
        assert entries.get(tx, Kind.RULE, "r7") == found["r7"]
        assert entries.get_many(tx, Kind.RULE, []) == {}
    assert sorted(found) == sorted(made)


def test_what_is_deleted_and_made_again_is_new(database: Database) -> None:
    change(database, put_rule("a"), who="ada")
    change(database, gone(Kind.RULE, "a", rule("a")))
    assert page(database, Kind.RULE, {}) == []
    change(database, put_rule("a", match={"tier": "pro"}), who="bob")
    with database.read() as tx:
        stored = entries.get(tx, Kind.RULE, "a")
    assert stored is not None
    assert stored.created_by == "bob"
    assert page(database, Kind.RULE, {"tier": "pro"}) == ["a"]


def test_rules_are_found_by_what_they_match(database: Database) -> None:
    change(
        database,
        put_rule("a", match={"tier": ["free", "pro"], "endpoint": "/login", "method": "post"}),
        put_rule("b", match={"tier": "pro", "user": 42, "ip": "10.0.0.0/8"}, group="g"),
        put_rule("c", match={"ip": ["10.1.0.0/16", "10.0.0.0/8"], "org": "acme"}, enabled=False),
        put_rule("d", action="block", match={"ip": "::ffff:192.0.2.1", "region": "eu", "api_key": "k1"}),
    )
    expected: dict[tuple[tuple[str, str], ...], list[str]] = {
        (): ["a", "b", "c", "d"],
        (("tier", "pro"),): ["a", "b"],
        (("tier", "pro"), ("endpoint", "/login")): ["a"],
        (("tier", "free"), ("user", "42")): [],
        (("method", "POST"),): ["a"],
        (("method", "post"),): ["a"],
        (("user", "42"),): ["b"],
        (("org", "acme"), ("enabled", "true")): [],
        (("org", "acme"), ("enabled", "false")): ["c"],
        (("enabled", "true"),): ["a", "b", "d"],
        (("ip", "10.0.0.0/8"),): ["b", "c"],
        (("ip", "10.1.2.3"),): ["b", "c"],
        (("ip", "10.2.2.3"), ("tier", "pro")): ["b"],
        (("ip", "192.0.2.1"),): ["d"],
        (("ip", "nonsense"),): [],
        (("action", "block"),): ["d"],
        (("action", "throttle"), ("tier", "pro")): ["a", "b"],
        (("group", "g"),): ["b"],
        (("region", "eu"), ("api_key", "k1")): ["d"],
    }
    assert {filters: page(database, Kind.RULE, dict(filters)) for filters in expected} == expected


def test_a_rule_that_matches_something_else_now_is_found_by_that_alone(database: Database) -> None:
    change(database, put_rule("a", match={"tier": "free"}))
    change(database, put_rule("a", rule("a", match={"tier": "free"}), match={"tier": "pro"}))
    assert page(database, Kind.RULE, {"tier": "free"}) == []
    assert page(database, Kind.RULE, {"tier": "pro"}) == ["a"]


def test_overrides_are_found_by_whom_they_are_for_and_what_they_do(database: Database) -> None:
    change(
        database,
        put(Kind.OVERRIDE, "user:42", user="42", tier="pro"),
        put(Kind.OVERRIDE, "org:7", org="7", block={"reason": "unpaid"}),
        put(Kind.OVERRIDE, "api_key:a:b", api_key="a:b", block=False, limit="5/minute"),
    )
    assert page(database, Kind.OVERRIDE, {"user": "42"}) == ["user:42"]
    assert page(database, Kind.OVERRIDE, {"api_key": "a:b"}) == ["api_key:a:b"]
    assert page(database, Kind.OVERRIDE, {"tier": "pro"}) == ["user:42"]
    assert page(database, Kind.OVERRIDE, {"blocked": "true"}) == ["org:7"]
    assert page(database, Kind.OVERRIDE, {"blocked": "false"}) == ["api_key:a:b", "user:42"]


def test_keys_are_found_by_owner_and_state(database: Database) -> None:
    change(
        database,
        put(Kind.KEY, "a", id="a", hash="a" * 64, user="1", tier="pro"),
        put(Kind.KEY, "b", id="b", hash="b" * 64, org="7", expires=PAST),
        put(Kind.KEY, "c", id="c", hash="c" * 64, user="1", revoked=PAST, revoked_by="ada", expires=PAST),
        put(Kind.KEY, "d", id="d", hash="d" * 64, expires=FUTURE),
    )
    assert page(database, Kind.KEY, {"user": "1"}) == ["a", "c"]
    assert page(database, Kind.KEY, {"org": "7"}) == ["b"]
    assert page(database, Kind.KEY, {"tier": "pro"}) == ["a"]
    assert page(database, Kind.KEY, {"state": "active"}) == ["a", "d"]
    assert page(database, Kind.KEY, {"state": "expired"}) == ["b"]
    assert page(database, Kind.KEY, {"state": "revoked", "user": "1"}) == ["c"]


def test_when_a_key_was_used_is_no_change(database: Database) -> None:
    change(database, put(Kind.KEY, "a", id="a", hash="a" * 64))
    late, early = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
    with database.aside() as tx:
        entries.mark_used(tx, ["a", "unknown", "x\0"], late)
        entries.mark_used(tx, ["a"], early)
    with database.read() as tx:
        stored = entries.get(tx, Kind.KEY, "a")
        assert tx.head.version == 1
    assert stored is not None
    assert stored.last_used == late


def test_marking_a_key_that_is_being_changed_waits_for_nobody(postgres_url: str) -> None:
    database = Database(postgres_url)
    key = put(Kind.KEY, "a", id="a", hash="a" * 64)
    change(database, key)
    with database.write() as tx:
        tx.commit_version("ada", None, "revoke", [put(Kind.KEY, "a", key.after, id="a", hash="a" * 64, revoked=PAST)])
        with database.aside(timeout_s=5) as beside:
            entries.mark_used(beside, ["a"], datetime(2026, 5, 1, tzinfo=UTC))
    with database.read() as read:
        (stored,) = entries.page(read, Kind.KEY, limit=5, filters={"state": "revoked"})
        assert stored.last_used is None
    database.close()


def test_blocks_are_found_by_what_they_block_and_whether_they_still_do(database: Database) -> None:
    change(
        database,
        put(Kind.BLOCK, "b1", id="b1", ip="203.0.113.0/24", until=PAST),
        put(Kind.BLOCK, "b2", id="b2", user="42", until=FUTURE, why="abuse"),
        put(Kind.BLOCK, "b3", id="b3", org="7"),
    )
    assert page(database, Kind.BLOCK, {"active": "true"}) == ["b2", "b3"]
    assert page(database, Kind.BLOCK, {"active": "false"}) == ["b1"]
    assert page(database, Kind.BLOCK, {"ip": "203.0.113.0/24"}) == ["b1"]
    assert page(database, Kind.BLOCK, {"user": "42"}) == ["b2"]


@pytest.mark.parametrize(
    ("kind", "filters"),
    [
        (Kind.RULE, {"colour": "red"}),
        (Kind.RULE, {"enabled": "perhaps"}),
        (Kind.TIER, {"tier": "free"}),
        (Kind.KEY, {"state": "asleep"}),
        (Kind.SWITCH, {"id": "a"}),
    ],
)
def test_a_filter_that_is_none_is_refused(database: Database, kind: Kind, filters: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        page(database, kind, filters)


def test_pages_follow_one_another_without_gap_or_repetition(database: Database) -> None:
    ids = sorted([f"r{number}" for number in range(25)] + ["R", "é", "z", "Z", "_", "~"], key=str.encode)
    change(database, *(put_rule(name, match={"tier": "free"}) for name in ids))
    for filters in ({}, {"tier": "free"}, {"enabled": "true"}):
        found: list[str] = []
        after = None
        while True:
            with database.read() as tx:
                some = names(entries.page(tx, Kind.RULE, limit=4, after=after, filters=filters))
            if not some:
                break
            found += some
            after = some[-1]
        assert found == ids


def test_a_search_is_for_a_part_of_the_name_in_any_case(database: Database) -> None:
    change(database, put_rule("Free-Login"), put_rule("login-100%"), put_rule("a_b"), put_rule("axb"), put_rule("a\\b"))
    assert page(database, Kind.RULE, {}, "login") == ["Free-Login", "login-100%"]
    assert page(database, Kind.RULE, {}, "LOGIN-1") == ["login-100%"]
    assert page(database, Kind.RULE, {}, "%") == ["login-100%"]
    assert page(database, Kind.RULE, {}, "a_b") == ["a_b"]
    assert page(database, Kind.RULE, {}, "\\") == ["a\\b"]
    assert page(database, Kind.RULE, {}, "/") == []


def test_all_entries_come_kind_by_kind(database: Database) -> None:
    change(
        database,
        put(Kind.SWITCH, "*", id="*"),
        put(Kind.TIER, "free", name="free", description="for all"),
        put_rule("b"),
        put_rule("a"),
    )
    with database.read() as tx:
        assert list(entries.all(tx)) == [
            Entry(Kind.RULE, "a", rule("a")),
            Entry(Kind.RULE, "b", rule("b")),
            Entry(Kind.SWITCH, "*", '{"id":"*"}'),
            Entry(Kind.TIER, "free", '{"description":"for all","name":"free"}'),
        ]
        assert [entry.id for entry in entries.all(tx, [Kind.TIER, Kind.SWITCH])] == ["*", "free"]
        assert [stored.id for stored in entries.all_stored(tx, Kind.RULE)] == ["a", "b"]
        assert entries.count(tx, Kind.RULE) == 2


def test_who_uses_a_tier_is_known(database: Database) -> None:
    change(
        database,
        put(Kind.TIER, "free", name="free"),
        put(Kind.TIER, "pro", name="pro"),
        *(put_rule(f"r{number}", match={"tier": ["free", "pro"]}) for number in range(3)),
        put(Kind.OVERRIDE, "user:42", user="42", tier="pro"),
    )
    with database.read() as tx:
        assert entries.tiers(tx) == {"free", "pro"}
        assert entries.tier_users(tx, "pro", 5) == ["rule r0", "rule r1", "rule r2", "override user:42"]
        assert entries.tier_users(tx, "free", 2) == ["rule r0", "rule r1"]
        assert entries.tier_users(tx, "gold", 5) == []
