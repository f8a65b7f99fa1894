"""Many threads, one truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from headgate._core import Engine, FakeClock
from tests.model.limits import ALGORITHMS, SECOND_US

THREADS = 8
START_S = 1_760_000_000.0


def together(work: Callable[[int], None]) -> None:
    """Runs `work` in many threads that start at once; whatever one of them raised is raised here."""
    barrier = Barrier(THREADS)

    def run(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(run, number) for number in range(THREADS)]:
            done.result()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("count", [10, 1_000, 9_999])
def test_eight_threads_on_one_key_admit_exactly_the_limit(algorithm: str, count: int) -> None:
    engine = Engine(clock=FakeClock(START_S))
    admitted = [0] * THREADS

    def work(number: int) -> None:
        for _ in range(count // 4):
            admitted[number] += bool(engine.check_limit("key", count, 60, 1, algorithm))

    together(work)
    assert sum(admitted) == count
    assert engine.peek_limit("key", count, 60, 0, algorithm).remaining == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_mixed_costs_from_eight_threads_never_pass_the_limit(algorithm: str) -> None:
    engine = Engine(clock=FakeClock(START_S))
    admitted = [0] * THREADS

    def work(number: int) -> None:
        for step in range(400):
            cost = 1 + (step * 7 + number) % 13
            if engine.check_limit("key", 5_000, 60, cost, algorithm):
                admitted[number] += cost

    together(work)
    left = engine.peek_limit("key", 5_000, 60, 0, algorithm).remaining
    assert left is not None
    assert sum(admitted) == 5_000 - left
    assert left < 13


def test_threads_over_five_composed_limits_never_pass_any_and_fill_the_smallest() -> None:
    limits = {"user": 4_000, "org": 2_000, "ip": 3_000, "global": 1_500, "endpoint": 2_500}
    engine = Engine(clock=FakeClock(START_S))
    rules = [{"name": by, "by": by, "limit": f"{count}/minute"} for by, count in limits.items()]
    engine.load_rules(json.dumps({"rules": rules}))
    admitted = [0] * THREADS

    def work(number: int) -> None:
        for _ in range(500):
            admitted[number] += bool(engine.check(user="u", org="o", ip="198.51.100.1", path="/x"))

    together(work)
    assert sum(admitted) == min(limits.values())
    final = engine.peek(user="u", org="o", ip="198.51.100.1", path="/x", cost=0)
    assert {item.rule: item.limit - item.remaining for item in final.results} == dict.fromkeys(limits, 1_500)


def test_requests_that_share_some_limits_never_pass_any_of_them() -> None:
    """Threads take overlapping sets of counters: no deadlock, no limit passed, nothing half spent."""
    engine = Engine(clock=FakeClock(START_S))
    rules = [{"name": by, "by": by, "limit": f"{count}/minute"} for by, count in [("user", 300), ("org", 700)]]
    engine.load_rules(json.dumps({"rules": [*rules, {"name": "all", "by": "global", "limit": "1500/minute"}]}))
    spent = [dict[str, int]() for _ in range(THREADS)]

    def work(number: int) -> None:
        for step in range(600):
            user, org = f"u{(step + number) % 6}", f"o{(step * 5 + number) % 3}"
            if engine.check(user=user, org=org):
                for subject in (f"user:{user}", f"org:{org}", "global"):
                    spent[number][subject] = spent[number].get(subject, 0) + 1

    together(work)
    totals: dict[str, int] = {}
    for own in spent:
        for subject, count in own.items():
            totals[subject] = totals.get(subject, 0) + count
    for subject, count in totals.items():
        kind = subject.partition(":")[0]
        assert count <= {"user": 300, "org": 700, "global": 1_500}[kind]
    for number in range(6):
        left = engine.peek(user=f"u{number}", org="o0", cost=0).results
        by_rule = {item.rule: item.limit - item.remaining for item in left}
        assert by_rule["user"] == totals.get(f"user:u{number}", 0)
        assert by_rule["all"] == totals["global"]


def test_refunds_from_many_threads_return_each_charge_once() -> None:
    engine = Engine(clock=FakeClock(START_S))
    decisions = [engine.check_limit("key", 1_000, 60, 5) for _ in range(100)]
    returned = [0] * THREADS

    def work(number: int) -> None:
        returned[number] = sum(engine.refund(decision) for decision in decisions)

    together(work)
    assert sum(returned) == 500
    assert engine.peek_limit("key", 1_000, 60, 0).remaining == 1_000


def test_rules_change_under_load_without_a_wrong_answer() -> None:
    """While one thread rewrites rules, the others are always counted by one version or another."""
    engine = Engine(clock=FakeClock(START_S))

    def put(count: int) -> None:
        engine.put_rule(json.dumps({"name": "r", "by": "user", "limit": f"{count}/minute"}))

    put(500)
    admitted = [0] * THREADS

    def work(number: int) -> None:
        for step in range(400):
            if number == 0:
                put(500 if step % 2 else 400)
                engine.put_rule(json.dumps({"name": f"other{step}", "by": "org", "limit": "1/day"}))
            else:
                admitted[number] += bool(engine.check(user="u"))

    together(work)
    assert 400 <= sum(admitted) <= 500


def test_a_clock_moved_by_another_thread_never_lets_more_through() -> None:
    clock = FakeClock(START_S)
    engine = Engine(clock=clock)
    admitted: list[list[tuple[int, int]]] = [[] for _ in range(THREADS)]

    def work(number: int) -> None:
        for _ in range(2_000):
            if number == 0:
                clock.advance(0.001)
                continue
            before_us = clock.now_us()
            if engine.check_limit("key", 50, 1):
                admitted[number].append((before_us, clock.now_us()))

    together(work)
    hits = [hit for own in admitted for hit in own]
    for start_us in {hit[0] for hit in hits}:
        surely_within = [hit for hit in hits if start_us <= hit[0] and hit[1] < start_us + SECOND_US]
        assert len(surely_within) <= 50
