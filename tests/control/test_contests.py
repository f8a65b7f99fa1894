"""A dry run tells who would win and who would lose, and changes nothing."""

from __future__ import annotations

from headgate.control.change import Contest, Wanted
from headgate.control.changes import Changes
from headgate.feed import Kind
from tests.control.conftest import Heard
from tests.control.state import head, names, rule, winners

ANN = "ann"


def between(contests: tuple[Contest, ...]) -> set[tuple[str | None, str | None]]:
    return {(one.winner_before, one.winner_after) for one in contests if one.loser is None}


def test_a_dry_run_changes_nothing_at_all(changes: Changes, heard: Heard) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    told = changes.create(Kind.RULE, rule("login", match={"endpoint": "/login"}), by=ANN, dry_run=True)

    assert told.dry_run
    assert [(one.id, one.before) for one in told.changes] == [("login", None)]
    assert (head(changes.database), names(changes.database), len(heard.positions)) == (1, ["everyone"], 1)
    assert winners(changes, user="1", path="/login") == ["everyone"]


def test_a_new_rule_takes_requests_from_a_wider_one(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    told = changes.create(Kind.RULE, rule("users", match={"endpoint": "/users/{id}"}), by=ANN, dry_run=True)

    assert told.contests == (Contest({"path": "/users/example", "user": "example"}, ("user",), "everyone", "users"),)
    assert told.contests[0].as_dict()["winner_after"] == "users"


def test_where_a_narrower_rule_goes_on_winning_is_told_as_well(changes: Changes) -> None:
    narrow = rule("acme-login", match={"org": "acme", "endpoint": "/api/v1/login"})
    changes.create(Kind.RULE, narrow, by=ANN)
    wide = rule("api", match={"endpoint": "/api/*"})
    told = changes.create(Kind.RULE, wide, by=ANN, dry_run=True)

    (lost,) = [one for one in told.contests if one.loser]
    assert (lost.loser, lost.winner_before, lost.winner_after) == ("api", "acme-login", "acme-login")
    assert lost.request == {"org": "acme", "path": "/api/v1/login", "user": "example"}
    assert lost.why == "its match is less specific"
    assert (None, "api") in between(told.contests)


def test_a_deleted_rule_leaves_its_requests_to_others(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    changes.create(Kind.RULE, rule("vip", match={"user": ["1", "2"]}), by=ANN)
    told = changes.delete(Kind.RULE, "vip", by=ANN, dry_run=True)
    assert between(told.contests) == {("vip", "everyone")}
    assert winners(changes, user="1") == ["vip"]


def test_overrides_and_blocks_compete_too(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    override = Wanted(Kind.OVERRIDE, "user:7", {"limit": "9/minute"})
    told = changes.apply([override], by=ANN, verb="apply", dry_run=True)
    assert between(told.contests) == {("everyone", "override:user:7")}

    told = changes.add_block({"user": "7"}, by=ANN, dry_run=True)
    assert ("everyone", None) in between(told.contests)
    assert winners(changes, user="7") == ["everyone"]


def test_rules_that_count_by_other_facts_do_not_compete(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("ceiling", by="org"), by=ANN)
    told = changes.create(Kind.RULE, rule("everyone"), by=ANN, dry_run=True)
    assert between(told.contests) == {(None, "everyone")}
