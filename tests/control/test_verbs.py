"""One verb, one use case: what it does, and what it refuses."""

from __future__ import annotations

import pytest

from headgate.control.change import Wanted
from headgate.control.changes import Changes
from headgate.control.errors import Exists, InUse, Invalid, NotThere, Stale
from headgate.feed import Kind
from tests.control.conftest import Heard
from tests.control.state import bodies, head, names, rule, versions, winners

ANN = "ann"


def test_a_created_rule_is_kept_logged_and_told_of(changes: Changes, heard: Heard) -> None:
    outcome = changes.create(Kind.RULE, rule("login", meta={"version": 9}), by=ANN, why="they knock too often")

    assert outcome.changed
    assert outcome.position.version == 1
    assert heard.positions == [outcome.position]
    assert outcome.entry is not None
    assert outcome.entry.body == rule("login")
    assert (outcome.entry.version, outcome.entry.created_by) == (1, ANN)
    (version,) = versions(changes.database)
    assert (version.who, version.why, version.verb) == (ANN, "they knock too often", "create")
    assert winners(changes, user="1") == ["login"]


def test_a_change_that_changes_nothing_takes_no_version(changes: Changes, heard: Heard) -> None:
    changes.create(Kind.RULE, rule("login", match={"user": 42}), by=ANN)
    same = changes.replace(Kind.RULE, "login", rule("login", match={"user": "42"}), by=ANN)

    assert not same.changed
    assert same.changes == ()
    assert same.entry is not None
    assert same.entry.version == 1
    assert head(changes.database) == 1
    assert len(heard.positions) == 1


def test_creating_twice_is_refused_and_replacing_is_not(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("login"), by=ANN)
    with pytest.raises(Exists, match="`login` already"):
        changes.create(Kind.RULE, rule("login", "6/minute"), by=ANN)
    outcome = changes.replace(Kind.RULE, "login", {"by": "ip", "limit": "6/minute"}, by=ANN)

    assert outcome.entry is not None
    assert outcome.entry.body == {"name": "login", "by": "ip", "limit": "6/minute"}


def test_every_mistake_is_told_with_its_path(changes: Changes) -> None:
    body = rule("login", "5/minit", match={"ip": "10.0.0.1/8"}, prioritty=3)
    with pytest.raises(Invalid) as refused:
        changes.create(Kind.RULE, body, by=ANN)

    assert {path for path, _ in refused.value.mistakes} == {"limit", "match.ip", "prioritty"}
    assert head(changes.database) == 0
    assert winners(changes, user="1") == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"by": "user", "limit": "5/minute"}, "name"),
        (rule("x", description="a\0b"), "description"),
        (rule("x", description="half \ud800"), "description"),
        (rule("n" * 129), "name"),
        (rule("override:user:1"), "name"),
        (rule("x", match={"user": ["1", "a\0"]}), "match.user[1]"),
    ],
)
def test_what_no_database_or_engine_takes_is_refused_before_it_gets_there(
    lite: Changes, body: dict[str, object], path: str
) -> None:
    with pytest.raises(Invalid) as refused:
        lite.create(Kind.RULE, body, by=ANN)
    assert [where for where, _ in refused.value.mistakes] == [path]


def test_a_patch_replaces_what_it_names_and_removes_what_it_nulls(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("login", match={"user": "1", "method": "POST"}, priority=7), by=ANN)
    changes.patch(Kind.RULE, "login", {"match": {"method": None, "org": 3}, "priority": None}, by=ANN)

    assert bodies(changes.database) == {(Kind.RULE, "login"): rule("login", match={"user": "1", "org": "3"})}
    with pytest.raises(Invalid, match="create the new one"):
        changes.patch(Kind.RULE, "login", {"name": "other"}, by=ANN)
    with pytest.raises(NotThere, match="no rule `else`"):
        changes.patch(Kind.RULE, "else", {"priority": 1}, by=ANN)


def test_only_the_version_that_was_read_is_changed(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("login"), by=ANN)
    changes.patch(Kind.RULE, "login", {"priority": 1}, by=ANN, expect=1)

    with pytest.raises(Stale) as stale:
        changes.replace(Kind.RULE, "login", rule("login"), by=ANN, expect=1)
    assert stale.value.version == 2
    for late in (changes.patch, changes.replace):
        with pytest.raises(Stale):
            late(Kind.RULE, "login", {"priority": 5}, by=ANN, expect=1)
    with pytest.raises(Stale):
        changes.delete(Kind.RULE, "login", by=ANN, expect=1)
    with pytest.raises(Stale, match="it is gone"):
        changes.replace(Kind.RULE, "gone", rule("gone"), by=ANN, expect=1)
    with pytest.raises(Exists):
        changes.replace(Kind.RULE, "login", rule("login"), by=ANN, expect="absent")
    assert head(changes.database) == 2


def test_a_deleted_rule_is_gone_and_takes_its_switch_along(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("login"), by=ANN)
    changes.switch("login", by=ANN)
    outcome = changes.delete(Kind.RULE, "login", by=ANN)

    assert bodies(changes.database) == {}
    assert outcome.entry is None
    assert {(one.kind, one.after) for one in outcome.changes} == {(Kind.RULE, None), (Kind.SWITCH, None)}
    with pytest.raises(NotThere):
        changes.delete(Kind.RULE, "login", by=ANN)


def test_a_disabled_rule_is_kept_and_comes_back_as_it_was(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("login"), by=ANN)
    changes.disable("login", by=ANN)
    assert winners(changes, user="1") == []
    assert not changes.disable("login", by=ANN).changed

    changes.enable("login", by=ANN)
    assert bodies(changes.database) == {(Kind.RULE, "login"): rule("login")}
    assert not changes.enable("login", by=ANN).changed
    assert winners(changes, user="1") == ["login"]


def test_switches_are_for_rules_that_there_are_or_for_all(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("login"), by=ANN)
    with pytest.raises(NotThere):
        changes.switch("logout", by=ANN)
    changes.switch("login", by=ANN)
    changes.switch("*", by=ANN, why="what is going on")
    assert names(changes.database, Kind.SWITCH) == ["*", "login"]

    changes.unswitch("*", by=ANN)
    with pytest.raises(NotThere):
        changes.unswitch("*", by=ANN)


def test_the_short_form_is_a_rule_with_a_name_of_its_own(changes: Changes) -> None:
    short = {"endpoint": "/api/v1/payment", "limit": 10, "window": "60s"}
    changes.create(Kind.RULE, short, by=ANN)
    changes.create(Kind.RULE, short | {"by": "ip", "method": "POST"}, by=ANN)

    match = {"endpoint": "/api/v1/payment"}
    assert bodies(changes.database) == {
        (Kind.RULE, "api-v1-payment"): {"name": "api-v1-payment", "match": match, "by": "user", "limit": "10/60s"},
        (Kind.RULE, "api-v1-payment-2"): {
            "name": "api-v1-payment-2",
            "match": match | {"method": "POST"},
            "by": "ip",
            "limit": "10/60s",
        },
    }


def test_one_change_of_many_entries_is_one_version_or_none(changes: Changes) -> None:
    good = Wanted(Kind.RULE, "good", rule("good"), place=("rules", 0))
    bad = Wanted(Kind.RULE, "bad", rule("bad", "often"), place=("rules", 1))
    with pytest.raises(Invalid) as refused:
        changes.apply([good, bad], by=ANN, verb="apply")
    assert refused.value.mistakes[0][0] == "rules[1].limit"
    assert winners(changes, user="1") == []

    outcome = changes.apply([good, Wanted(Kind.TIER, "pro", {})], by=ANN, verb="apply")
    assert outcome.position.version == 1
    assert outcome.counts.created == 2
    with pytest.raises(Invalid, match="given twice"):
        changes.apply([good, good], by=ANN, verb="apply")


def test_overrides_are_for_whom_they_are_addressed_to(changes: Changes) -> None:
    changes.replace(Kind.OVERRIDE, "user:42", {"limit": "7/minute"}, by=ANN)
    changes.replace(Kind.OVERRIDE, "org:7", {"org": 7, "tier": "pro"}, by=ANN)

    assert names(changes.database, Kind.OVERRIDE) == ["org:7", "user:42"]
    assert winners(changes, user="42") == ["override:user:42"]
    with pytest.raises(Invalid) as refused:
        changes.replace(Kind.OVERRIDE, "user:42", {"user": 43, "limit": "7/minute"}, by=ANN)
    assert refused.value.mistakes[0][0] == "user"
    with pytest.raises(Invalid, match="for the user `42`"):
        changes.replace(Kind.OVERRIDE, "user:42", {"org": 43, "limit": "7/minute"}, by=ANN)
    with pytest.raises(Invalid, match="needs a `tier`, a `limit` or a `block`"):
        changes.replace(Kind.OVERRIDE, "user:42", {}, by=ANN)


def test_what_people_say_of_a_change_is_one_bounded_line(lite: Changes) -> None:
    for why in ("a\r\nSet-Cookie: b", "x" * 1_001, "\x1b[2J"):
        with pytest.raises(Invalid) as refused:
            lite.create(Kind.RULE, rule("login"), by=ANN, why=why)
        assert refused.value.mistakes[0][0] == "why"


class TestTiers:
    def test_once_there_are_tiers_others_are_mistakes(self, changes: Changes) -> None:
        changes.create(Kind.RULE, rule("any", match={"tier": "pro"}), by=ANN)
        with pytest.raises(Invalid, match="would be unknown"):
            changes.create(Kind.TIER, {"name": "free"}, by=ANN)
        changes.create(Kind.TIER, {"name": "pro", "description": "pays"}, by=ANN)

        with pytest.raises(Invalid) as refused:
            changes.create(Kind.RULE, rule("other", match={"tier": ["pro", "por"]}), by=ANN)
        assert refused.value.mistakes[0][0] == "match.tier[1]"
        with pytest.raises(Invalid) as refused:
            changes.replace(Kind.OVERRIDE, "user:1", {"tier": "por"}, by=ANN)
        assert refused.value.mistakes[0][0] == "tier"

    def test_a_tier_in_use_stays(self, changes: Changes) -> None:
        changes.create(Kind.TIER, {"name": "pro"}, by=ANN)
        changes.create(Kind.TIER, {"name": "free"}, by=ANN)
        changes.create(Kind.RULE, rule("any", match={"tier": "pro"}), by=ANN)
        for nth in range(7):
            changes.replace(Kind.OVERRIDE, f"user:{nth}", {"tier": "pro"}, by=ANN)
        with pytest.raises(InUse) as used:
            changes.delete(Kind.TIER, "pro", by=ANN)
        assert len(used.value.users) == 5
        assert used.value.users[0] == "rule any"
        changes.delete(Kind.TIER, "free", by=ANN)

    def test_a_tier_may_go_with_its_last_user(self, changes: Changes) -> None:
        changes.create(Kind.TIER, {"name": "pro"}, by=ANN)
        changes.create(Kind.RULE, rule("any", match={"tier": "pro"}), by=ANN)
        gone = [Wanted(Kind.TIER, "pro", None), Wanted(Kind.RULE, "any", None)]
        assert changes.apply(gone, by=ANN, verb="apply").counts.deleted == 2
