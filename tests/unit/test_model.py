"""The models are held against answers worked out by hand and against the promises themselves."""

from __future__ import annotations

from random import Random

import pytest

from tests.model.algorithms import counter
from tests.model.limits import ALGORITHMS, MINUTE_US, SECOND_US, Limit
from tests.model.oracle import bucket_excess, excess, most_in_any_aligned_window, most_in_any_window
from tests.vectors.by_hand import EXAMPLES
from tests.vectors.format import Player, Vector, first_limit

START_US = 1_760_000_000 * SECOND_US


@pytest.mark.parametrize("vector", EXAMPLES, ids=lambda vector: vector["name"])
def test_the_model_agrees_with_answers_worked_out_by_hand(vector: Vector) -> None:
    player = Player(first_limit(vector))
    for number, step in enumerate(vector["steps"]):
        assert player.play(step) == step.get("expect"), f"step {number}"


def test_the_oracle_counts_half_open_windows() -> None:
    hits = [(0, 1), (5, 2), (10, 4)]
    assert most_in_any_window(hits, 10) == 6
    assert most_in_any_window(hits, 11) == 7
    assert most_in_any_window([], 10) == 0
    assert most_in_any_aligned_window([(9, 3), (10, 3), (19, 1)], 10) == 4


def test_the_oracle_finds_the_worst_stretch_of_a_bucket() -> None:
    limit = Limit("gcra", 1, SECOND_US, 2)
    assert bucket_excess([(0, 2), (SECOND_US, 1)], limit) == 0
    assert bucket_excess([(0, 2), (SECOND_US - 1, 1)], limit) > 0
    assert bucket_excess([(0, 1), (SECOND_US, 1)], limit) < 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("count", [1, 5, 33, 100])
def test_a_model_never_admits_more_than_promised(algorithm: str, count: int) -> None:
    limit = Limit(algorithm, count, MINUTE_US)
    for seed in range(3):
        random, model, now_us = Random(seed), counter(limit), START_US
        admitted = []
        for _ in range(120):
            cost = 1 + random.randrange(max(1, count // 3))
            wait_us = model.wait_us(cost, now_us) or 0
            now_us += (wait_us, max(0, wait_us - 1), random.randrange(MINUTE_US // count + 1))[random.randrange(3)]
            if model.check(cost, now_us).allowed:
                admitted.append((now_us, cost))
        assert excess(admitted, limit) <= 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_model_is_not_needlessly_strict(algorithm: str) -> None:
    """A counter nobody used lets the whole capacity through at once, and again after it was reset."""
    model = counter(Limit(algorithm, 50, MINUTE_US))
    first = model.check(50, START_US)
    assert first.allowed
    assert first.remaining == 0
    again = model.check(50, START_US + first.reset_after_us)
    assert again.allowed


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_peek_leaves_the_model_as_it_was(algorithm: str) -> None:
    model = counter(Limit(algorithm, 5, MINUTE_US))
    model.check(2, START_US)
    assert model.peek(1, START_US) == model.peek(1, START_US) == model.check(1, START_US)
