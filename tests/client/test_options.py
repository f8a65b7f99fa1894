"""What a person writes wrong is said plainly, where it is written."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from headgate import ConfigError
from headgate.client import RetryOptions


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attempts_max": 0}, "attempts_max: expected a whole number from 1 to 100, not 0"),
        ({"attempts_max": 2.0}, "attempts_max: expected a whole number from 1 to 100, not 2.0"),
        ({"attempts_max": True}, "attempts_max: expected a whole number from 1 to 100, not True"),
        ({"wait_max_s": -1}, "wait_max_s: expected a number from 0 to"),
        ({"wait_max_s": float("nan")}, "wait_max_s: expected a number"),
        ({"total_wait_max_s": float("inf")}, "total_wait_max_s: expected a number"),
        ({"unnamed_wait_s": "5"}, "unnamed_wait_s: expected a number"),
        ({"jitter": 1.5}, "jitter: expected a number from 0 to 1, not 1.5"),
        ({"jitter": -0.1}, "jitter: expected a number from 0 to 1, not -0.1"),
        ({"pace_below": 2}, "pace_below: expected a number from 0 to 1, not 2"),
        ({"budget_max": -1}, "budget_max: expected a number"),
        ({"pace": "yes"}, "pace: expected True or False, not 'yes'"),
        ({"methods": "GET"}, "methods: expected several, as in {'GET', 'POST'}, not 'GET'"),
        ({"methods": ["G T"]}, "methods: expected names such as 'POST', not 'G T'"),
        ({"methods": None}, "methods: expected several, as in {'GET', 'POST'}, not None"),
        ({"methods": [["GET"]]}, "methods: expected names such as 'POST', not ['GET']"),
        ({"statuses": None}, "statuses: expected several, as in {429, 503}, not None"),
        ({"methods": [1]}, "methods: expected names such as 'POST', not 1"),
        ({"statuses": 429}, "statuses: expected several, as in {429, 503}, not 429"),
        ({"statuses": [200]}, "statuses: expected whole numbers from 400 to 599, not 200"),
        ({"origins_max": 0}, "origins_max: expected a whole number from 1 to 100000, not 0"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        RetryOptions(**wrong)


def test_methods_are_taken_in_any_case_and_form() -> None:
    assert RetryOptions(methods=["get", "Post"]).methods == {"GET", "POST"}
    assert RetryOptions(methods=["propfind", "M-SEARCH"]).methods == {"PROPFIND", "M-SEARCH"}
    assert RetryOptions(statuses=[429, 429]).statuses == {429}


def test_options_are_frozen_and_comparable() -> None:
    options = RetryOptions(attempts_max=3)
    assert options == RetryOptions(attempts_max=3)
    assert len({options, RetryOptions(attempts_max=3), RetryOptions()}) == 2
    with pytest.raises(FrozenInstanceError):
        options.attempts_max = 4  # type: ignore[misc]
