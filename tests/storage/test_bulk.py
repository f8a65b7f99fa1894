"""Very many entries as one change."""

from __future__ import annotations

import threading

import pytest

from headgate.errors import ConfigError, StorageDown
from headgate.feed import Entry, Kind
from headgate.storage.sql import Changed, Database, bulk, entries, history, outbox
from headgate.storage.sql.bulk import Counts
from tests.storage.made import change, names, put, put_rule, rule, rule_entry, state


def apply(database: Database, *given: Entry, prune: tuple[Kind, ...] = ()) -> Counts:
    with bulk.staging(database) as staged:
        assert staged.put(iter(given)) == len(given)
        with staged.write() as tx:
            return staged.merge(tx, "ada", "in bulk", "apply", prune)


def test_one_version_holds_what_was_created_and_replaced(database: Database) -> None:
    change(database, put_rule("a"), put_rule("b", match={"tier": "old"}), who="eve")
    many = [rule_entry(f"m{number:05d}", match={"tier": "new", "org": str(number)}) for number in range(12_000)]
    replaced = rule_entry("b", match={"tier": "new"}, priority=7, group="g", enabled=False, action="shadow")
    counts = apply(database, rule_entry("a"), replaced, *many)
    assert counts == Counts(2, created=12_000, replaced=1, deleted=0, unchanged=1)
    with database.read() as tx:
        made = history.version(tx, 2)
        assert made is not None
        assert (made.who, made.why, made.changes) == ("ada", "in bulk", 12_001)
        assert made.bytes == sum(len(one.id) + len(one.body or "") for one in [replaced, *many])
        assert history.changes(tx, 2, limit=1) == [
            Changed(Kind.RULE, "b", rule("b", match={"tier": "old"}), replaced.body)
        ]
        assert [one.position.version for one in outbox.pending(tx, "eu")] == [1, 2]
        stored = entries.get(tx, Kind.RULE, "b")
        assert stored is not None
        assert (stored.created_by, stored.updated_by, stored.version) == ("eve", "ada", 2)
        same = entries.get(tx, Kind.RULE, "a")
        assert same is not None
        assert same.version == 1
        assert entries.page(tx, Kind.RULE, limit=5, filters={"tier": "old"}) == []
        wanted = {"tier": "new", "group": "g", "enabled": "false", "action": "shadow"}
        assert names(entries.page(tx, Kind.RULE, limit=5, filters=wanted)) == ["b"]
        assert names(entries.page(tx, Kind.RULE, limit=5, filters={"org": "11999"})) == ["m11999"]


def test_the_same_again_changes_nothing(database: Database) -> None:
    given = [rule_entry("a"), Entry(Kind.TIER, "free", '{"name":"free"}')]
    assert apply(database, *given) == Counts(1, 2, 0, 0, 0)
    assert apply(database, *given) == Counts(None, 0, 0, 0, 2)
    with database.read() as tx:
        assert tx.head.version == 1


def test_what_is_not_given_is_deleted_only_if_asked(database: Database) -> None:
    tier = put(Kind.TIER, "free", name="free")
    change(database, put_rule("a", match={"tier": "free"}), put_rule("b"), tier)
    assert apply(database, rule_entry("b")).changed == 0
    assert apply(database, rule_entry("b"), prune=(Kind.RULE,)) == Counts(2, 0, 0, 1, 1)
    with database.read() as tx:
        assert set(state(tx)) == {(Kind.RULE, "b"), (Kind.TIER, "free")}
        assert entries.tier_users(tx, "free", 5) == []
        assert history.changes(tx, 2, limit=5) == [Changed(Kind.RULE, "a", rule("a", match={"tier": "free"}), None)]
    assert apply(database, prune=(Kind.RULE, Kind.TIER)) == Counts(3, 0, 0, 2, 0)


def test_every_kind_can_be_staged(database: Database) -> None:
    given = [
        Entry(Kind.OVERRIDE, "user:42", '{"block":true,"tier":"pro","user":"42"}'),
        Entry(Kind.BLOCK, "b1", '{"id":"b1","ip":"203.0.113.0/24","until":"2099-01-01T00:00:00Z"}'),
        Entry(Kind.KEY, "k1", '{"hash":"' + "0" * 64 + '","id":"k1","user":"42"}'),
        Entry(Kind.SWITCH, "*", '{"id":"*"}'),
        Entry(Kind.TIER, "pro", '{"name":"pro"}'),
    ]
    apply(database, *given)
    with database.read() as tx:
        assert sorted(entries.all(tx), key=lambda entry: entry.kind) == sorted(given, key=lambda entry: entry.kind)
        assert names(entries.page(tx, Kind.BLOCK, limit=5, filters={"active": "true"})) == ["b1"]
        assert names(entries.page(tx, Kind.OVERRIDE, limit=5, filters={"blocked": "true"})) == ["user:42"]
        assert names(entries.page(tx, Kind.KEY, limit=5, filters={"user": "42"})) == ["k1"]
        (owed,) = outbox.pending(tx, "eu")
        assert owed.urgent


def test_a_plan_shows_what_would_change_and_changes_nothing(database: Database) -> None:
    change(database, put_rule("a"), put_rule("b"))
    with bulk.staging(database) as staged:
        staged.put([rule_entry("b", priority=7), rule_entry("c")])
        with staged.write() as tx:
            assert staged.plan(tx, [Kind.RULE]) == Counts(None, 1, 1, 1, 0)
            assert list(staged.differences(tx)) == [
                Changed(Kind.RULE, "a", rule("a"), None),
                put_rule("b", rule("b"), priority=7),
                put_rule("c"),
            ]
            assert [one.id for one in staged.differences(tx, limit=1)] == ["a"]
    with database.read() as tx:
        assert tx.head.version == 1


def test_a_plan_is_what_is_merged(database: Database) -> None:
    change(database, put_rule("a"))
    with bulk.staging(database) as staged:
        staged.put([rule_entry("b")])
        with staged.write() as tx:
            staged.plan(tx, [Kind.RULE])
            assert staged.merge(tx, "ada", None, "apply") == Counts(2, 1, 0, 1, 0)
    with database.read() as tx:
        assert set(state(tx)) == {(Kind.RULE, "b")}


def test_an_error_while_merging_leaves_nothing_behind(database: Database) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError), bulk.staging(database) as staged:
            staged.put([rule_entry("a")])
            with staged.write() as tx:
                staged.merge(tx, "ada", None, "apply")
                raise RuntimeError
    with database.read() as tx:
        assert state(tx) == {}
        assert tx.head.version == 0
    assert apply(database, rule_entry("a")).version == 1


def test_an_entry_given_twice_is_named(database: Database) -> None:
    with pytest.raises(ConfigError, match="given more than once: rule 'a', rule 'b'"):
        apply(database, rule_entry("a"), rule_entry("b"), rule_entry("a", priority=7), rule_entry("b"))
    with database.read() as tx:
        assert tx.head.version == 0


def test_others_change_things_while_entries_are_staged(database: Database) -> None:
    with bulk.staging(database) as staged:
        staged.put([rule_entry("a"), rule_entry("b")])
        done = threading.Thread(target=change, args=[database, put_rule("a", priority=7)])
        done.start()
        done.join(20)
        assert not done.is_alive()
        with staged.write() as tx:
            assert staged.merge(tx, "ada", None, "apply") == Counts(2, 1, 1, 0, 0)
            with pytest.raises(StorageDown), database.write(timeout_s=0.05):
                pass
    with database.read() as tx:
        assert state(tx)[Kind.RULE, "a"] == rule("a")


def test_what_is_left_of_a_broken_staging_disturbs_nobody(database: Database) -> None:
    with pytest.raises(ConfigError, match="NUL"), bulk.staging(database) as staged:
        staged.put([rule_entry("a"), rule_entry("b\0")])
    assert apply(database, rule_entry("a")).version == 1
