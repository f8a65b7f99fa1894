"""Clients against our own engine, in simulated time: with pacing on, limits are met, not hit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.client import RetryOptions
from tests.client.effort import tried
from tests.client.simulation import Simulation

PATIENT = RetryOptions(wait_max_s=7_200.0, total_wait_max_s=72_000.0, attempts_max=20)
IMPATIENT = RetryOptions(wait_max_s=7_200.0, total_wait_max_s=72_000.0, attempts_max=20, pace=False)
# A fleet that starts cold finds out by being refused; after that it knows.
FEW = 3

LIMITS = ["10/second", "100/second burst 200", "60/minute", "5/minute", "1/second", "20/second;100/minute"]


@pytest.mark.parametrize("families", [None, ("ietf",), ("x-ratelimit",)], ids=str)
@pytest.mark.parametrize("draft", [10, 11])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_client_that_wants_too_much_gets_all_of_it_without_refusals(
    limit: str, draft: int, families: tuple[str, ...] | None
) -> None:
    if families == ("x-ratelimit",) and ";" in limit:
        # They speak of one limit at a time and do not name it: half of what one must know.
        return
    wanted_at_s = [number * 0.03 for number in range(250)]
    outcome = Simulation(limit, wanted_at_s, PATIENT, draft=draft, families=families).run()
    assert outcome.statuses == [200] * 250
    assert outcome.refusals <= FEW
    assert Simulation(limit, wanted_at_s, IMPATIENT).run().refusals >= 100 or "burst" in limit


@tried(100)
@given(
    st.integers(2, 50),
    st.sampled_from(["second", "10s", "minute"]),
    st.sampled_from(["sliding_window", "fixed_window", "gcra", "sliding_log"]),
    st.lists(st.floats(0.001, 5.0), min_size=1, max_size=60),
    st.floats(0.0, 0.2),
    st.integers(0, 1_000),
)
def test_whatever_the_limit_and_the_arrivals_few_are_refused(
    count: int, per: str, algorithm: str, gaps_s: list[float], latency_s: float, seed: int
) -> None:
    arrivals_s = [sum(gaps_s[:number]) for number in range(len(gaps_s))]
    # What is on its way before the first answer comes cannot know of the limit.
    cold = sum(arrival_s <= arrivals_s[0] + 2 * latency_s for arrival_s in arrivals_s)
    simulation = Simulation(f"{count}/{per}", arrivals_s, PATIENT, latency_s, seed, algorithm)
    outcome = simulation.run()
    assert outcome.statuses == [200] * len(arrivals_s)
    assert outcome.refusals <= max(0, cold - count) + FEW


@pytest.mark.parametrize(("limit", "per_s"), [("10/second", 10.0), ("60/minute", 1.0), ("100/second burst 200", 100.0)])
def test_pacing_wastes_little_of_the_limit(limit: str, per_s: float) -> None:
    wanted = 600
    outcome = Simulation(limit, [number / per_s / 3 for number in range(wanted)], PATIENT).run()
    assert max(outcome.sent_at_s) <= 1.6 * wanted / per_s + 2


def test_a_client_within_its_limit_is_never_held() -> None:
    outcome = Simulation("60/minute", [number * 1.2 for number in range(200)], PATIENT).run()
    assert outcome.held_s == [0.0] * 200
    assert outcome.refusals == 0


def test_a_burst_within_the_quota_goes_at_once() -> None:
    outcome = Simulation("5/minute", [0.0, 0.1, 0.2, 0.3, 0.4], PATIENT).run()
    assert outcome.held_s == [0.0] * 5


def test_a_fleet_that_starts_all_at_once_is_refused_once_each_and_then_served() -> None:
    outcome = Simulation("10/second", [0.0] * 60, PATIENT).run()
    assert outcome.statuses == [200] * 60
    assert outcome.refusals <= 50 + FEW


def test_several_processes_that_share_a_limit_are_refused_less_than_once_a_request() -> None:
    arrivals_s = [number * 0.05 for number in range(200)]
    outcome = Simulation("10/second", arrivals_s, PATIENT, processes=4).run()
    assert outcome.statuses == [200] * 200
    assert outcome.refusals < 200


def test_a_server_in_trouble_is_not_stampeded() -> None:
    """1,000 requests to a limit of one an hour: the budget bounds what is sent again."""
    options = RetryOptions(wait_max_s=7_200.0, total_wait_max_s=7_200.0, attempts_max=100, pace=False, budget_per_s=0.0)
    outcome = Simulation("1/hour", [number * 0.001 for number in range(1_000)], options).run()
    assert len(outcome.statuses) == 1_000
    assert outcome.refusals + 1 <= 1_000 + 50 + 100
    assert "budget" in outcome.gave_up
