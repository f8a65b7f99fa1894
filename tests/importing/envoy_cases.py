"""Small configurations of envoyproxy/ratelimit and calls, by chance: few keys and values, so that they meet."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.model.ratelimit import text_of

KEYS = ["a", "a", "a", "b", "a_b"]
VALUES = [None, None, "x", "xy", "x*", "x*", "xy*", "xy*", "*", "y", "é*"]
# The same as the key `a_b` with the value `x`, once key and value are joined.
JOINED = "b_x"
ASKED = ["", "x", "xy", "xyz", "xyz", "y", JOINED, "é", "éé"]
NAMES = ["first", "second"]
DEPTH_MAX = 3


def configuration(random: Random, counts: Sequence[int], units: Sequence[str], depth: int = 1) -> list[dict[str, Any]]:
    """A list of `descriptors:`."""
    items: dict[str, dict[str, Any]] = {}
    for _ in range(random.randint(1, 7 if depth == 1 else 3)):
        item = _descriptor(random, counts, units)
        if depth < DEPTH_MAX and random.random() < 0.4:
            item["descriptors"] = configuration(random, counts, units, depth + 1)
        items.setdefault(text_of(item), item)
    return list(items.values())


def _descriptor(random: Random, counts: Sequence[int], units: Sequence[str]) -> dict[str, Any]:
    item: dict[str, Any] = {"key": random.choice(KEYS)}
    value = random.choice(VALUES)
    if value is not None:
        item["value"] = value
        if value.endswith("*") and random.random() < 0.4:
            item["share_threshold"] = True
    if random.random() < 0.75:
        item["rate_limit"] = _limit(random, counts, units)
        if random.random() < 0.15:
            item["shadow_mode"] = True
    return item


def _limit(random: Random, counts: Sequence[int], units: Sequence[str]) -> dict[str, Any]:
    limit: dict[str, Any] = {}
    if random.random() < 0.1:
        limit["unlimited"] = True
    else:
        limit |= {"unit": random.choice(units), "requests_per_unit": random.choice(counts)}
    if random.random() < 0.3:
        limit["name"] = random.choice(NAMES)
    if random.random() < 0.3:
        others = [name for name in NAMES if name != limit.get("name")]
        limit["replaces"] = [{"name": random.choice(others)}]
    return limit


def descriptor(random: Random) -> list[tuple[str, str]]:
    return [(random.choice(KEYS), random.choice(ASKED)) for _ in range(random.randint(1, DEPTH_MAX))]
