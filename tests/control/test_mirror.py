"""The mirror is always what a mirror made anew would be, whatever was tried, refused, changed here or elsewhere."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import bulk, mirror
from headgate.control.changes import Changes
from headgate.control.errors import ChangeError, Invalid
from headgate.control.mirror import FarBehind, Mirror
from headgate.feed import Kind
from headgate.storage.sql import Changed, Database
from tests.control.state import rule, winners

NAMES = st.sampled_from(["a", "b", "c"])
USERS = st.sampled_from(["1", "2"])
RULES = st.builds(
    lambda name, user, by, limit: rule(name, limit, match={"user": user}, by=by),
    NAMES,
    USERS,
    st.sampled_from(["user", "ip"]),
    st.sampled_from(["5/minute", "6/minute", "wrong"]),
)
OVERRIDES = st.builds(lambda user, limit: {"user": user, "limit": limit}, USERS, st.sampled_from(["1/day", "wrong"]))
STEPS = st.one_of(
    st.tuples(st.just("rule"), RULES, st.booleans()),
    st.tuples(st.just("gone"), NAMES, st.booleans()),
    st.tuples(st.just("override"), OVERRIDES, st.booleans()),
    st.tuples(st.just("block"), USERS, st.booleans()),
    st.tuples(st.just("switch"), NAMES, st.booleans()),
    st.tuples(st.just("document"), st.lists(RULES, max_size=3, unique_by=lambda one: one["name"]), st.booleans()),
    st.tuples(st.just("back"), st.integers(0, 5), st.booleans()),
)


def carry_out(changes: Changes, verb: str, what: Any, dry_run: bool) -> None:
    how: dict[str, Any] = {"by": "w", "dry_run": dry_run}
    match verb:
        case "rule":
            changes.replace(Kind.RULE, what["name"], what, **how)
        case "gone":
            changes.delete(Kind.RULE, what, **how)
        case "override":
            changes.replace(Kind.OVERRIDE, f"user:{what['user']}", what, **how)
        case "block":
            changes.add_block({"user": what}, **how)
        case "switch":
            changes.switch(what, **how)
        case "document":
            changes.apply_document({"rules": what}, prune=True, **how)
        case "back":
            changes.rollback(what, **how)


def explained(one: Mirror, database: Database) -> list[Any]:
    with one.held(), database.read() as tx:
        one.follow(tx)
        found = [one.explain({"user": user, "ip": "192.0.2.1"}) for user in ("1", "2", "3")]
    # In which order candidates are listed depends on where they lie in the engine's tables, and means nothing.
    return [sorted(told["candidates"], key=lambda rule: rule["rule"]) for told in found]


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 1), STEPS), max_size=10), few=st.sampled_from([0, 2_000]))
def test_two_mirrors_are_what_a_new_one_would_be(
    sqlite_template: Path, steps: list[tuple[int, tuple[str, Any, bool]]], few: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(bulk, "FEW", few)
        shutil.copy(sqlite_template, Path(folder) / "x.db")
        database = Database(f"sqlite:///{folder}/x.db")
        planes = [Changes(database), Changes(database)]
        try:
            for who, (verb, what, dry_run) in steps:
                with contextlib.suppress(ChangeError):
                    carry_out(planes[who], verb, what, dry_run)
            fresh = explained(Mirror(), database)
            assert [explained(plane.mirror, database) for plane in planes] == [fresh, fresh]
        finally:
            database.close()


def test_one_that_is_far_behind_catches_up_outside_the_lock(
    lite: Changes, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lite.create(Kind.RULE, rule("mine", match={"user": "0"}), by="w")
    other_database = Database(sqlite_url)
    other = Changes(other_database)
    other.apply_document({"rules": [rule(f"r{nth}", match={"user": str(nth)}) for nth in range(1, 9)]}, by="w")
    monkeypatch.setattr(mirror, "CATCH_UP_BYTES_MAX", 10)
    gave_up = 0
    follow = Mirror.follow

    def counted(self: Mirror, tx: Any, *, at_once: bool = False) -> None:
        nonlocal gave_up
        try:
            follow(self, tx, at_once=at_once)
        except FarBehind:
            gave_up += 1
            raise

    monkeypatch.setattr(Mirror, "follow", counted)
    assert lite.create(Kind.RULE, rule("next", by="org"), by="w").position.version == 3
    assert gave_up == 1
    assert sorted(winners(lite, user="8", org="1")) == ["next", "r8"]
    other_database.close()


def test_room_that_refused_rules_took_is_given_back(lite: Changes) -> None:
    """The engine numbers the sets of facts it has seen, and never forgets one; 256 are its bound."""
    for nth in range(40):
        crowd = {"rules": [rule(f"r{one}", by=["user", f"d{nth}-{one}"]) for one in range(20)]}
        assert lite.apply_document(crowd, by="w", dry_run=True).changed
    assert lite.create(Kind.RULE, rule("a", by=["user", "new"]), by="w").changed


def test_a_plain_mistake_does_not_make_the_mirror_anew(lite: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    lite.create(Kind.RULE, rule("a"), by="w")
    monkeypatch.delattr(Mirror, "rebuild")
    with pytest.raises(Invalid, match="needs a `limit`"):
        lite.create(Kind.RULE, {"name": "b", "by": "user"}, by="w")


def test_an_entry_that_a_stricter_engine_refuses_stops_nobody(lite: Changes) -> None:
    with lite.database.write() as tx:
        changed = Changed(Kind.RULE, "old", None, '{"by":"user","limit":"often","name":"old"}')
        tx.commit_version("w", None, "create", [changed])
    assert lite.create(Kind.RULE, rule("new"), by="w").changed
    assert winners(lite, user="1") == ["new"]
    assert lite.replace(Kind.RULE, "old", rule("old", by="ip"), by="w").changed
