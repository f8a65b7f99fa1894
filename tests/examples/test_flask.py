"""examples/flask under gunicorn."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.examples.application import Example

GUESSES = 30


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    example = Example("flask", tmp_path_factory.mktemp("example"))
    with example.running("gunicorn", "/healthz") as client:
        yield client


def test_the_shop_does_what_its_page_says(shop: httpx.Client) -> None:
    visits = [shop.get("/items") for _ in range(6)]
    assert [visit.status_code for visit in visits] == [200] * 5 + [429]
    assert visits[0].headers["X-RateLimit-Remaining"] == "4"
    assert visits[5].json()["retry_after"] == int(visits[5].headers["Retry-After"])
    assert [shop.get("/healthz").status_code for _ in range(10)] == [200] * 10

    # A member has a counter of their own, and the right password costs nothing however often.
    for _ in range(15):
        assert log_in(shop, "ann", "correct horse") == 200
    seen = shop.get("/items")
    assert (seen.status_code, seen.headers["X-RateLimit-Limit"]) == (200, "20")
    assert [shop.get("/items").status_code for _ in range(20)] == [200] * 19 + [429]

    # Guesses at the same moment are no more than three, and then the right password comes too late.
    with ThreadPoolExecutor(GUESSES) as pool:
        answers = list(pool.map(lambda n: log_in(shop, "bob", f"guess {n}"), range(GUESSES)))
    assert sorted(answers) == [403] * 3 + [429] * (GUESSES - 3)
    assert log_in(shop, "bob", "battery staple") == 429
    assert log_in(shop, "ann", "correct horse") == 200

    # What was refused by the name was not counted for the address: seven of its ten are left.
    answers = [log_in(shop, f"nobody-{n}", "guess") for n in range(8)]
    assert answers == [403] * 7 + [429]


def log_in(shop: httpx.Client, user: str, password: str) -> int:
    return shop.post("/login", data={"user": user, "password": password}).status_code
