"""How much a call spends, and that nothing is counted twice (SEMANTICS 7.2, 7.3)."""

from __future__ import annotations

import pytest

from tests.grpc.client import Descriptor, Status, by
from tests.grpc.conftest import Asking, Rule

PER_USER: Rule = {"name": "per-user", "by": "user", "limit": "10/minute"}
PER_ORG: Rule = {"name": "per-org", "by": "org", "limit": "10/minute"}


@pytest.mark.parametrize(("hits", "spent"), [(0, 1), (1, 1), (4, 4)])
def test_the_addend_of_a_request_is_one_unless_it_says_more(asking: Asking, hits: int, spent: int) -> None:
    assert asking(PER_USER).ask(by(user="42"), hits=hits).remaining == [10 - spent]


def test_a_descriptors_own_addend_comes_before_the_requests(asking: Asking) -> None:
    client = asking(PER_USER, PER_ORG)
    assert client.ask(by(user="42", hits=3), by(org="acme"), hits=2).remaining == [7, 8]


def test_a_descriptors_own_nought_only_looks(asking: Asking) -> None:
    client = asking(PER_USER, PER_ORG)
    assert client.ask(by(user="42", hits=0)).remaining == [10]
    assert client.ask(by(user="42", hits=0), by(org="acme"), hits=2).remaining == [10, 8]
    assert client.ask(by(user="42", hits=0)).remaining == [10]


def test_looking_at_a_limit_that_is_used_up_does_not_refuse(asking: Asking) -> None:
    client = asking(PER_USER)
    client.ask(by(user="42"), hits=10)
    assert client.ask(by(user="42", hits=0)).statuses == [Status("OK", "per-user", 10, "MINUTE", 0, 60.0)]
    assert client.ask(by(user="42")).code == "OVER_LIMIT"


def test_more_than_can_ever_fit_is_refused_without_a_time(asking: Asking) -> None:
    answer = asking(PER_USER).ask(by(user="42"), hits=11)
    assert (answer.code, answer.remaining) == ("OVER_LIMIT", [10])
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("hits", [2**32 - 1, 2**32, 2**63, 2**64 - 1])
def test_the_largest_addends_are_refused_and_spend_nothing(asking: Asking, hits: int) -> None:
    client = asking(PER_USER)
    assert client.ask(by(user="42", hits=hits)).code == "OVER_LIMIT"
    assert client.ask(by(user="42", hits=0)).remaining == [10]


def test_a_subject_met_twice_is_counted_once(asking: Asking) -> None:
    client = asking(PER_USER)
    answer = client.ask(by(user="42"), by(user="42", path="/a"), by(user="42"))
    assert answer.remaining == [9, 9, 9]
    assert client.ask(by(user="42", hits=0)).remaining == [9]


@pytest.mark.parametrize("addends", [(2, 5, 3), (5, 2, 0), (0, 0, 5)])
def test_a_subject_met_twice_is_counted_with_the_largest_addend(asking: Asking, addends: tuple[int, ...]) -> None:
    client = asking(PER_USER)
    client.ask(*(by(user="42", hits=hits) for hits in addends))
    assert client.ask(by(user="42", hits=0)).remaining == [5]


def test_different_subjects_of_one_rule_are_counted_each(asking: Asking) -> None:
    client = asking(PER_USER)
    assert client.ask(by(user="42", hits=2), by(user="43", hits=3)).remaining == [8, 7]


def test_limits_that_share_a_counter_all_hold(asking: Asking) -> None:
    """The same usage, seen by two tiers in one call: the tighter limit must not be forgotten for the wider."""
    shared = {"by": "user", "counter": "calls"}
    client = asking(
        {"name": "gold", "match": {"tier": "gold"}, "limit": "10/minute"} | shared,
        {"name": "free", "match": {"tier": "free"}, "limit": "2/minute"} | shared,
    )
    gold, free = by(user="42", tier="gold"), by(user="42", tier="free")
    codes = [client.ask(gold, free).codes for _ in range(3)]
    assert codes == [["OK", "OK"], ["OK", "OK"], ["OK", "OVER_LIMIT"]]
    assert client.ask(by(user="42", tier="gold", hits=0)).remaining == [8]


def test_a_limit_that_comes_along_stands_in_for_those_of_rules(asking: Asking) -> None:
    client = asking(PER_USER)
    own = by(user="42", limit=(3, "HOUR"))
    assert [client.ask(own).remaining for _ in range(3)] == [[2], [1], [0]]
    [status] = client.ask(own).statuses
    assert (status.code, status.limit, status.unit) == ("OVER_LIMIT", 3, "HOUR")
    assert client.ask(by(user="42", hits=0)).remaining == [10]


def test_a_limit_that_comes_along_is_counted_by_domain_and_entries(asking: Asking) -> None:
    client = asking()
    limit = (3, "MINUTE")
    client.ask(by(user="42", limit=limit), domain="edge")
    others = [
        ("edge", by(user="43", limit=limit)),
        ("mesh", by(user="42", limit=limit)),
        ("edge", by(user="42", path="/a", limit=limit)),
        ("edge", by(org="42", limit=limit)),
        ("edgeuser", Descriptor({"": "42"}, limit)),
    ]
    assert [client.ask(other, domain=domain).remaining for domain, other in others] == [[2]] * len(others)
    assert client.ask(by(user="42", limit=limit), domain="edge").remaining == [1]


def test_a_changed_limit_that_comes_along_keeps_what_was_used(asking: Asking) -> None:
    client = asking()
    client.ask(by(user="42", limit=(10, "MINUTE")), hits=4)
    assert client.ask(by(user="42", limit=(6, "MINUTE"))).remaining == [1]


def test_a_limit_of_nothing_refuses(asking: Asking) -> None:
    client = asking(PER_USER)
    assert client.ask(by(user="42", limit=(0, "MINUTE"))).codes == ["OVER_LIMIT"]


@pytest.mark.parametrize(("action", "code"), [("block", "OVER_LIMIT"), ("allow", "OK")])
def test_block_and_allow_rules_hold_for_a_limit_that_comes_along(asking: Asking, action: str, code: str) -> None:
    client = asking({"name": "alone", "match": {"user": "42"}, "action": action})
    answers = [client.ask(by(user="42", limit=(1, "MINUTE"))) for _ in range(3)]
    assert [answer.statuses for answer in answers] == [[Status(code)]] * 3


def test_two_limits_that_come_along_for_the_same_entries_both_hold(asking: Asking) -> None:
    client = asking()
    wide, tight = by(user="42", limit=(10, "MINUTE")), by(user="42", limit=(2, "MINUTE"))
    codes = [client.ask(wide, tight).code for _ in range(3)]
    assert codes == ["OK", "OK", "OVER_LIMIT"]


def test_entries_in_another_order_are_the_same_facts(asking: Asking) -> None:
    client = asking({"name": "both", "by": ["user", "org"], "limit": "10/minute"})
    client.ask(Descriptor([("user", "42"), ("org", "acme")]))
    assert client.ask(Descriptor([("org", "acme"), ("user", "42")])).remaining == [8]
