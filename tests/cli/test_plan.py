"""What people read before they agree."""

from __future__ import annotations

from typing import Any

from headgate.cli import plan

BEFORE = {"name": "login", "match": {"endpoint": "/login", "tier": "free"}, "limit": "5/minute", "by": "user"}


def change(before: Any, after: Any) -> dict[str, Any]:
    return {"kind": "rule", "id": "login", "before": before, "after": after}


def test_a_replaced_rule_shows_the_fields_that_differ_and_no_others() -> None:
    after = {**BEFORE, "match": {"endpoint": "/login", "method": "POST"}, "limit": ["5/minute", "10/hour"]}
    assert list(plan.change_lines(change(BEFORE, after))) == [
        "~ rule login",
        "    match.tier: free → (none)",
        "    match.method: (none) → POST",
        '    limit: 5/minute → ["5/minute", "10/hour"]',
    ]


def test_a_plan_says_how_much_it_does() -> None:
    body = {"changes": [change(None, BEFORE), change(BEFORE, None)], "contests": []}
    assert list(plan.lines(body)) == [
        "+ rule login",
        '    match: {"endpoint": "/login", "tier": "free"}',
        "    limit: 5/minute",
        "    by: user",
        "- rule login",
        "1 to create, 1 to delete",
    ]
    assert list(plan.lines({"changes": [], "contests": []})) == ["nothing to change"]


def test_a_list_that_is_only_the_first_of_many_says_so() -> None:
    body = {"changes": [change(None, BEFORE)], "created": 1_000_000, "replaced": 0, "deleted": 0}
    assert list(plan.lines(body))[-2:] == ["… and 999,999 more", "1,000,000 to create"]


def test_who_would_win_is_told() -> None:
    contests = [
        {"request": {"user": "42", "path": "/login"}, "by": ["user"], "winner_before": "all", "winner_after": "login"},
        {"request": {}, "by": ["org"], "winner_before": None, "winner_after": "vip", "loser": "login"},
    ]
    told = list(plan.lines({"changes": [change(BEFORE, None)], "contests": contests}))
    assert "  user=42, path=/login (by user): all → login" in told
    assert "  any request (by org): login loses to vip" in told


def test_nothing_in_a_plan_drives_the_terminal() -> None:
    evil = {**BEFORE, "description": "\x1b[2J\nsecond", "name": "x"}
    told = "\n".join(plan.lines({"changes": [{**change(None, evil), "id": "a\x1b\nb"}], "contests": []}))
    assert "\x1b" not in told
    assert "\nb" not in told
    assert "\nsecond" not in told
