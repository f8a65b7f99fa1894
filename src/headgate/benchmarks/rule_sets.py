"""Large rule sets to measure with: ten rules for each of very many organisations, as a service with plans has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from headgate.feed.entry import Entry, Kind

RULES_PER_ORG = 10
# Organisations differ in what they bought, but not each from every other.
PLANS = 50
# What the rules of one organisation are about: its name, what it matches besides, by whom it counts, how much.
_SHAPES: tuple[tuple[str, dict[str, str], str | list[str], int], ...] = (
    ("ceiling", {}, "org", 100),
    ("free", {"tier": "free"}, "org", 100),
    ("pro", {"tier": "pro"}, "org", 100),
    ("search", {"endpoint": "/api/v1/search"}, "user", 1),
    ("orders", {"endpoint": "/api/v1/orders/{id}"}, "user", 1),
    ("login", {"endpoint": "/api/v1/login", "method": "POST"}, "user", 1),
    ("upload", {"endpoint": "/api/v1/files", "method": "PUT"}, "user", 1),
    ("reports", {"endpoint": "/api/v1/reports", "tier": "pro"}, "user", 1),
    ("writes", {"method": "POST"}, "user", 1),
    ("api", {"endpoint": "/api/v1/*"}, ["org", "endpoint"], 50),
)


def rules(count: int) -> Iterator[tuple[str, str]]:
    """So many, each with its name and its body as a line of JSON."""
    for number in range(count):
        org, shape = divmod(number, RULES_PER_ORG)
        word, match, by, times = _SHAPES[shape]
        name = f"org-{org}-{word}"
        limit = f"{(org % PLANS + 1) * 10 * times}/second"
        body = {"name": name, "match": {"org": f"o{org}", **match}, "by": by, "limit": limit}
        yield name, json.dumps(body, separators=(",", ":"))


def entries(count: int) -> Iterator[Entry]:
    return (Entry(Kind.RULE, name, body) for name, body in rules(count))


def write_lines(path: Path, count: int) -> int:
    """The bulk form, one rule a line. Gives its size in bytes."""
    with path.open("w") as file:
        file.writelines(f"{body}\n" for _, body in rules(count))
    return path.stat().st_size
