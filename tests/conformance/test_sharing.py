"""Usage belongs to the store: limiters, versions of the rules and tiers come and go."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headgate.testing import FakeClock
from tests.conformance.stores import Store
from tests.model.limits import ALGORITHMS

FACTS: dict[str, Any] = {"user": "42", "org": "acme", "ip": "198.51.100.7", "path": "/login"}


def rules(limit: str, algorithm: str = "sliding_window") -> list[dict[str, Any]]:
    return [
        {"name": "user", "by": "user", "limit": limit, "algorithm": algorithm},
        {"name": "user at endpoint", "by": ["user", "endpoint"], "limit": limit, "algorithm": algorithm},
        {"name": "org", "by": "org", "limit": limit, "algorithm": algorithm},
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_limiters_of_the_same_rules_share_usage(shared_store: Store, algorithm: str) -> None:
    clock = FakeClock()
    first, second = (shared_store.limiter(rules("5/minute", algorithm), clock=clock) for _ in range(2))
    left = [limiter.check(**FACTS).remaining for limiter in (first, second, first, second, first)]
    assert left == [4, 3, 2, 1, 0]
    assert not first.check(**FACTS)
    assert not second.check(**FACTS)


def test_what_one_limiter_spent_another_can_see_but_not_return(shared_store: Store) -> None:
    first, second = shared_store.limiter(), shared_store.limiter()
    decision = first.check_limit("k", 10, 60, cost=6)
    assert second.peek_limit("k", 10, 60, cost=0).remaining == 4
    assert first.refund(decision) == 6
    assert second.peek_limit("k", 10, 60, cost=0).remaining == 10
    assert first.refund(decision) == 0
    assert second.peek_limit("k", 10, 60, cost=0).remaining == 10


def test_a_reset_by_one_is_a_reset_for_all(shared_store: Store) -> None:
    first, second = (shared_store.limiter(rules("2/minute")) for _ in range(2))
    first.check(**FACTS, cost=2)
    assert not second.check(**FACTS)
    assert second.reset(**FACTS) == 3
    assert first.check(**FACTS).remaining == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_changed_limit_keeps_usage(store: Store, algorithm: str) -> None:
    clock = FakeClock()
    limiter = store.limiter(rules("10/minute", algorithm), clock=clock)
    limiter.check(**FACTS, cost=4)
    limiter.reload(rules("6/minute", algorithm))
    assert limiter.check(**FACTS).remaining == 1
    limiter.reload(rules("3/minute", algorithm))
    assert not limiter.check(**FACTS)
    limiter.reload(rules("100/minute", algorithm))
    # What was used stays used; one that was clamped to the smaller capacity may have forgotten the rest.
    left = limiter.peek(**FACTS, cost=0).remaining
    assert left is not None
    assert 95 <= left <= 97


def test_another_algorithm_takes_usage_over(store: Store) -> None:
    clock = FakeClock()
    limiter = store.limiter(rules("10/minute"), clock=clock)
    limiter.check(**FACTS, cost=10)
    for algorithm in ALGORITHMS:
        limiter.reload(rules("10/minute", algorithm))
        assert not limiter.check(**FACTS), algorithm


def test_a_change_of_tier_changes_the_limit_and_not_the_usage(store: Store) -> None:
    shared = {"by": "user", "counter": "login"}
    document = {
        "tiers": ["free", "pro"],
        "rules": [
            {"name": "free login", "match": {"tier": "free"}, "limit": "5/minute"} | shared,
            {"name": "pro login", "match": {"tier": "pro"}, "limit": "50/minute"} | shared,
        ],
    }
    limiter = store.limiter(document, clock=FakeClock())
    assert limiter.check(user="42", tier="free", cost=5).remaining == 0
    assert not limiter.check(user="42", tier="free")
    assert limiter.check(user="42", tier="pro").remaining == 44
    limiter.put_override(json.dumps({"user": "42", "tier": "pro"}))
    assert limiter.check(user="42").remaining == 43
    limiter.remove_override("user", "42")
    assert not limiter.check(user="42")


def test_rules_that_do_not_share_a_counter_count_apart(store: Store) -> None:
    document = [
        {"name": "a", "match": {"endpoint": "/a"}, "by": "user", "limit": "5/minute"},
        {"name": "b", "match": {"endpoint": "/b"}, "by": "user", "limit": "5/minute"},
    ]
    limiter = store.limiter(document, clock=FakeClock())
    assert limiter.check(user="42", path="/a", cost=5)
    assert limiter.check(user="42", path="/b").remaining == 4


def test_a_shadow_rule_counts_and_never_refuses(store: Store) -> None:
    document = [
        {"name": "on", "by": "user", "limit": "5/minute"},
        {"name": "trial", "by": "org", "limit": "2/minute", "action": "shadow"},
    ]
    limiter = store.limiter(document, clock=FakeClock())
    would = []
    for _ in range(4):
        decision = limiter.check(user="42", org="acme")
        assert decision.allowed
        would += [item.allowed for item in decision.results if item.shadow]
    assert would == [True, True, False, False]


def test_a_blocked_request_spends_nothing(store: Store) -> None:
    document = [
        {"name": "ban", "match": {"user": "mallory"}, "action": "block"},
        {"name": "all", "by": "global", "limit": "5/minute"},
    ]
    limiter = store.limiter(document, clock=FakeClock())
    decision = limiter.check(user="mallory")
    assert (decision.allowed, decision.path, decision.status) == (False, "blocked", 403)
    assert limiter.check(user="ann").remaining == 4


def test_async_and_plain_checks_spend_the_same_counter(store: Store) -> None:
    limiter = store.limiter(rules("9/minute"), clock=FakeClock())
    left = [limiter.check(**FACTS).remaining, asyncio.run(limiter.acheck(**FACTS)).remaining]
    left += [limiter.check(**FACTS).remaining, asyncio.run(limiter.acheck(**FACTS)).remaining]
    assert left == [8, 7, 6, 5]


def test_a_reservation_is_settled_in_the_store(store: Store) -> None:
    limiter = store.limiter(rules("10/minute"), clock=FakeClock())
    with limiter.reserve(**FACTS, cost=8) as reservation:
        assert limiter.peek(**FACTS, cost=0).remaining == 2
        reservation.commit(3)
    assert limiter.peek(**FACTS, cost=0).remaining == 7


def test_committing_more_than_was_reserved_is_seen_by_the_next_check(store: Store) -> None:
    limiter = store.limiter(clock=FakeClock())
    for number in range(20):
        limiter.commit(limiter.check_limit(f"k{number}", 10, 60), 5)
        assert limiter.peek_limit(f"k{number}", 10, 60, cost=0).remaining == 5


def test_an_answer_names_the_least_wait_that_is_enough(store: Store) -> None:
    clock = FakeClock()
    limiter = store.limiter(clock=clock)
    for algorithm in ALGORITHMS:
        limiter.check_limit(algorithm, 3, 60, cost=3, algorithm=algorithm)
        clock.advance(7)
        refused = limiter.check_limit(algorithm, 3, 60, algorithm=algorithm)
        assert refused.retry_after
        clock.advance(refused.retry_after - 1e-6)
        assert not limiter.check_limit(algorithm, 3, 60, algorithm=algorithm)
        clock.advance(1e-6)
        assert limiter.check_limit(algorithm, 3, 60, algorithm=algorithm)
