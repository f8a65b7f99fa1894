"""The table of counters is bounded, and no flood frees or freezes anybody else (SEMANTICS 2.4)."""

from __future__ import annotations

import json

import pytest

from headgate._core import Engine, FakeClock
from tests.model.limits import ALGORITHMS

START_S = 1_760_000_000.0
FLOOD = 1_000_000


def flood(engine: Engine, keys: int, prefix: str = "flood") -> int:
    """One request each from many keys; how many were let through."""
    check = engine.check_limit
    return sum(bool(check(f"{prefix}{number}", 1, 60)) for number in range(keys))


def test_a_table_of_ten_thousand_flooded_by_a_million_frees_nobody_who_is_refused() -> None:
    engine = Engine(max_keys=10_000, clock=FakeClock(START_S))
    refused = [f"victim{number}" for number in range(500)]
    for key in refused:
        assert engine.check_limit(key, 1, 60)
        assert not engine.check_limit(key, 1, 60)
    flood(engine, FLOOD)
    assert not any(engine.check_limit(key, 1, 60) for key in refused)
    stats = engine.stats()
    assert stats["keys"] <= 10_000 * 1.25
    assert stats["cells"] <= 10_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_algorithm_is_freed_by_a_flood(algorithm: str) -> None:
    engine = Engine(max_keys=1_000, clock=FakeClock(START_S))
    keys = [f"victim{number}" for number in range(100)]
    for key in keys:
        for _ in range(3):
            assert engine.check_limit(key, 3, 60, 1, algorithm)
    for number in range(20_000):
        engine.check_limit(f"flood{number}", 3, 60, 1, algorithm)
    assert not any(engine.check_limit(key, 3, 60, 1, algorithm) for key in keys)


@pytest.mark.parametrize("max_keys", [1, 2, 14, 28, 100, 112, 126, 1_000, 5_000])
def test_keys_beyond_the_table_are_counted_together_and_never_for_free(max_keys: int) -> None:
    """Past the table's size, keys share cells that only over-count: a flood gets one each of those."""
    engine = Engine(max_keys=max_keys, clock=FakeClock(START_S))
    admitted = flood(engine, 20_000)
    stats = engine.stats()
    assert admitted <= stats["keys"] + stats["cells"]
    assert stats["keys"] <= max_keys * 1.25 + 1
    assert flood(engine, 20_000) == 0, "nobody gets a second chance within the minute"


def test_a_flood_that_has_died_leaves_room_again() -> None:
    clock = FakeClock(START_S)
    engine = Engine(max_keys=1_000, clock=clock)
    flood(engine, 20_000)
    clock.advance(62)
    assert flood(engine, 500, "fresh") == 500
    clock.advance(1)
    assert flood(engine, 500, "fresh") == 0


def test_a_key_that_leaves_a_cell_takes_its_count_along() -> None:
    """A refused key must not be freed by getting an entry of its own."""
    clock = FakeClock(START_S)
    engine = Engine(max_keys=16, clock=clock)
    for number in range(200):
        engine.check_limit(f"short{number}", 1, 1)
    engine.check_limit("late", 1, 3_600)
    for number in range(200):
        engine.check_limit(f"long{number}", 1, 3_600)
    assert not engine.check_limit("late", 1, 3_600)
    clock.advance(5)
    for number in range(8):
        engine.check_limit(f"again{number}", 1, 1)
    assert not engine.check_limit("late", 1, 3_600)


FLOODED = {"name": "flooded", "match": {"region": "flood"}, "by": "user", "limit": "5/minute"}


def rule(by: str) -> dict[str, object]:
    return {"name": by, "match": {"region": "calm"}, "by": by, "limit": "5/minute"}


def test_a_flood_on_one_rule_leaves_another_rules_new_keys_their_own_counters() -> None:
    engine = Engine(max_keys=10_000, clock=FakeClock(START_S))
    engine.load_rules(json.dumps({"rules": [FLOODED, rule("org")]}))
    for number in range(100_000):
        engine.check(user=f"u{number}", region="flood")
    for number in range(100):
        left = [engine.check(org=f"o{number}", region="calm").remaining for _ in range(5)]
        assert left == [4, 3, 2, 1, 0], f"org {number} shares its counter"


def test_a_flood_leaves_room_for_the_new_keys_of_a_hundred_busy_rules() -> None:
    """A tenth of the table is in use by a hundred rules when another is flooded; 400 new keys come later."""
    engine = Engine(max_keys=10_000, clock=FakeClock(START_S))
    others = [f"d{number}" for number in range(100)]
    engine.load_rules(json.dumps({"rules": [FLOODED, *(rule(by) for by in others)]}))

    def whole(by: str, value: int) -> bool:
        return bool(engine.check(descriptors={by: f"v{value}"}, region="calm", cost=5))

    assert all(whole(by, value) for by in others for value in range(10))
    for number in range(100_000):
        engine.check(user=f"u{number}", region="flood")
    shared = sum(not whole(by, value) for by in others for value in range(10, 14))
    assert shared == 0, f"{shared} of 400 keys of other rules share a counter"


def test_a_flood_of_plain_calls_leaves_those_of_another_window_their_own_counters() -> None:
    engine = Engine(max_keys=10_000, clock=FakeClock(START_S))
    flood(engine, 100_000)
    shared = sum(not engine.check_limit(f"key{number}", 5, 3_600, 5) for number in range(200))
    assert shared == 0, f"{shared} of 200 keys share a counter"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("others", [400, 20_000])
def test_a_window_made_longer_keeps_its_counters_alive(algorithm: str, others: int) -> None:
    """A counter that would have died under the old window still refuses under the new one."""
    clock = FakeClock(START_S)
    engine = Engine(max_keys=1_000, clock=clock)

    def put(limit: str) -> None:
        rule = {"name": "r", "by": "user", "limit": limit, "algorithm": algorithm}
        engine.put_rule(json.dumps(rule))

    put("5/minute")
    victims = [f"victim{number}" for number in range(50)]
    for user in victims:
        assert engine.check(user=user, cost=5)
    clock.advance(30)
    put("5/hour")
    clock.advance(100)
    assert not any(engine.check(user=user) for user in victims)
    for number in range(others):
        engine.check(user=f"other{number}")
    assert not any(engine.check(user=user) for user in victims)


def test_dead_counters_do_not_pile_up() -> None:
    clock = FakeClock(START_S)
    engine = Engine(max_keys=1_000, clock=clock)
    for second in range(50):
        flood(engine, 400, f"s{second}-")
        clock.advance(70)
    assert engine.stats()["keys"] <= 1_250
    assert flood(engine, 400, "last") == 400
