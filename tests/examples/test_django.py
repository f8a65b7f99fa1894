"""examples/django under gunicorn."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.examples.application import Example

ANN, BOB = ("ann", "correct-horse"), ("bob", "battery-staple")


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    example = Example("django", tmp_path_factory.mktemp("example"))
    example.do("python manage.py")
    with example.running("gunicorn", "/healthz") as client:
        yield client


def test_the_shop_does_what_its_page_says(shop: httpx.Client) -> None:
    visits = [shop.get("/items") for _ in range(6)]
    assert [visit.status_code for visit in visits] == [200] * 5 + [429]
    assert visits[0].headers["X-RateLimit-Remaining"] == "4"
    assert visits[5].json()["retry_after"] == int(visits[5].headers["Retry-After"])
    assert [shop.get("/healthz").status_code for _ in range(10)] == [200] * 10

    # Wrong passwords are counted for a name, and then the right one comes too late; others are not touched by it.
    assert [sign_in(shop, "bob", "guess") for _ in range(4)] == [403] * 3 + [429]
    assert sign_in(shop, *BOB) == 429
    assert [sign_in(shop, *ANN) for _ in range(4)] == [200] * 4
    seen = shop.get("/items")
    assert (seen.status_code, seen.headers["X-RateLimit-Limit"]) == (200, "20")

    # The throttle counts those whom Django REST framework knows.
    orders = [order(shop, ANN) for _ in range(3)]
    assert [answer.status_code for answer in orders] == [201, 201, 429]
    assert int(orders[2].headers["Retry-After"]) >= 1
    assert orders[2].headers["X-RateLimit-Limit"] == "2"
    assert order(shop, BOB).status_code == 201


def sign_in(shop: httpx.Client, username: str, password: str) -> int:
    return shop.post("/login", data={"username": username, "password": password}).status_code


def order(shop: httpx.Client, who: tuple[str, str]) -> httpx.Response:
    return shop.post("/api/orders", data={"item": "lamp"}, auth=who)
