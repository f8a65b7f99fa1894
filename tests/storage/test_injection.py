"""Whatever a name or a filter holds, it is a name or a filter."""

from __future__ import annotations

import pytest

from headgate.errors import ConfigError
from headgate.feed import Kind
from headgate.storage.sql import Database, bulk, entries, history
from tests.storage.made import change, gone, names, put, put_rule, rule, rule_entry, state

STRANGE = [
    "'; DROP TABLE rules; --",
    '"; DELETE FROM ledger; --',
    "' OR '1'='1",
    "%",
    "_",
    "\\",
    "\\'",
    "$1",
    "%s",
    "%(id)s",
    ":id",
    "{}",
    "a\tb\nc\r",
    "é\u0301 ☃ 𝄞 \u202e",
    "NULL",
    "*",
    "/",
    "e\u200bx",
    "x" * 1_024,
    "é" * 512,
]


def test_strange_texts_are_kept_as_they_are(database: Database) -> None:
    for text in STRANGE:
        keep(database, text)
    with database.read() as tx:
        assert state(tx) == {}
        assert tx.head.version == 4 * len(STRANGE)


def keep(database: Database, text: str) -> None:
    """Makes, finds, replaces and deletes two entries of that name, beside an innocent one."""
    match = {"user": text, "org": ["plain", text]}
    override = put(Kind.OVERRIDE, f"user:{text}", user=text, tier=text)
    change(database, put_rule("innocent"), put_rule(text, match=match, group=text), who=text, why=text)
    change(database, override)
    with database.read() as tx:
        stored = entries.get(tx, Kind.RULE, text)
        assert stored is not None
        assert stored.body["match"] == match
        assert stored.created_by == text
        for name in ("user", "org", "group"):
            assert names(entries.page(tx, Kind.RULE, limit=5, filters={name: text})) == [text]
        assert names(entries.page(tx, Kind.RULE, limit=5, search=text)) == [text]
        after = names(entries.page(tx, Kind.RULE, limit=5, after=text))
        assert after == (["innocent"] if text.encode() < b"innocent" else [])
        (step, *_) = history.of(tx, Kind.RULE, text, limit=5)
        assert (step.version.who, step.version.why) == (text, text)
        assert names(entries.page(tx, Kind.OVERRIDE, limit=5, filters={"user": text})) == [f"user:{text}"]
        assert names(entries.page(tx, Kind.OVERRIDE, limit=5, filters={"tier": text})) == [f"user:{text}"]
        assert entries.tier_users(tx, text, 5) == [f"override user:{text}"]
    with bulk.staging(database) as staged:
        staged.put([rule_entry(text, match=match, priority=7)])
        with staged.write() as write:
            assert staged.merge(write, text, text, "apply").replaced == 1
    assert override.after is not None
    change(
        database,
        gone(Kind.RULE, text, rule(text, match=match, priority=7)),
        gone(Kind.RULE, "innocent", rule("innocent")),
        gone(Kind.OVERRIDE, f"user:{text}", override.after),
    )


def test_what_no_database_can_hold_is_refused_and_found_nowhere(database: Database) -> None:
    for text in ("a\0b", "\ud800", "x" * 1_101, ""):
        with pytest.raises(ConfigError):
            change(database, put_rule(text))
    for text in ("a\0b", "\ud800", "x" * 1_101):
        with pytest.raises(ConfigError):
            change(database, put_rule("a", match={"user": text}))
        with pytest.raises(ConfigError):
            change(database, put_rule("a", group=text))
    for text in ("a\0b", "\ud800"):
        with pytest.raises(ConfigError):
            change(database, put_rule("a"), who=text)
        with pytest.raises(ConfigError):
            change(database, put_rule("a"), why=text)
        with database.read() as tx:
            assert entries.get(tx, Kind.RULE, text) is None
            assert history.of(tx, Kind.RULE, text, limit=5) == []
            assert entries.page(tx, Kind.RULE, limit=5, filters={"user": text}) == []
            assert entries.page(tx, Kind.RULE, limit=5, after=text, search=text) == []
    with database.read() as tx:
        assert tx.head.version == 0
        assert state(tx) == {}
