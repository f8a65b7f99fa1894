"""examples/fastapi-tiers under uvicorn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.examples.application import PATIENCE_S, Example, Keys
from tests.servers.waiting import wait_for

LIMITS = {"ann": 5, "bob": 20}
# How many groups of customers there are, one for each test.
TESTS = 8


@dataclass(frozen=True)
class Running:
    folder: Path
    client: httpx.Client
    keys: Keys

    def weather(self, user: str | None = None) -> httpx.Response:
        return self.client.get("/weather/oslo", headers=self.keys[user] if user else {})

    def order(self, user: str) -> httpx.Response:
        return self.client.post("/reports", params={"city": "oslo"}, headers=self.keys[user])


@pytest.fixture(scope="module")
def each(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Running]]:
    """For each test customers of its own, all of one running service."""
    example = Example("fastapi-tiers", tmp_path_factory.mktemp("example"))
    groups = [example.make_keys(group) for group in range(TESTS)]
    with example.running("uvicorn", "/healthz") as client:
        yield (Running(example.folder, client, keys) for keys in groups)


@pytest.fixture
def weather(each: Iterator[Running]) -> Running:
    return next(each)


@pytest.mark.parametrize(("user", "limit"), LIMITS.items())
def test_each_tier_has_its_own_limit_and_its_refusal_says_how_long_to_wait(
    weather: Running, user: str, limit: int
) -> None:
    allowed = [weather.weather(user) for _ in range(limit)]
    assert {answer.status_code for answer in allowed} == {200}
    assert [answer.headers["X-RateLimit-Remaining"] for answer in allowed] == [
        str(left) for left in range(limit - 1, -1, -1)
    ]
    refused = weather.weather(user)
    assert refused.status_code == 429
    assert refused.headers["X-RateLimit-Limit"] == str(limit)
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json() == {
        "error": "Rate limit exceeded",
        "retry_after": int(refused.headers["Retry-After"]),
    }


def test_tiers_do_not_meet(weather: Running) -> None:
    assert [weather.weather("ann").status_code for _ in range(6)] == [200] * 5 + [429]
    assert weather.weather("bob").status_code == 200
    assert [weather.weather("cron").status_code for _ in range(30)] == [200] * 30
    assert "X-RateLimit-Limit" not in weather.weather("cron").headers


def test_who_has_no_key_is_counted_by_address_as_free_and_a_strange_key_is_refused(weather: Running) -> None:
    assert [weather.weather().status_code for _ in range(6)] == [200] * 5 + [429]
    strange = weather.client.get("/weather/oslo", headers={"X-API-Key": "hgk_nobody_knows"})
    assert strange.status_code == 401
    assert strange.headers["Content-Type"] == "application/problem+json"


def test_a_report_too_many_costs_nothing_of_the_tiers_limit(weather: Running) -> None:
    assert [weather.order("ann").status_code for _ in range(5)] == [202, 202, 429, 429, 429]
    assert [weather.weather("ann").status_code for _ in range(4)] == [200] * 3 + [429]
    assert [weather.order("cron").status_code for _ in range(3)] == [202, 202, 429]


def test_the_application_learns_who_asks_and_its_document_tells_of_the_429(weather: Running) -> None:
    who = weather.client.get("/me", headers=weather.keys["bob"]).json()
    assert (who["user"], who["tier"], who["ip"]) == (who["user"], "pro", "127.0.0.1")
    assert who["user"].startswith("bob")
    paths = weather.client.get("/openapi.json").json()["paths"]
    assert "429" in paths["/reports"]["post"]["responses"]
    assert "429" not in paths["/weather/{city}"]["get"]["responses"]


# Last, since it changes the rules of all.
def test_a_saved_change_of_the_rules_is_enforced_and_keeps_what_was_used(weather: Running) -> None:
    assert [weather.weather("ann").status_code for _ in range(6)] == [200] * 5 + [429]
    rules = weather.folder / "rules.yaml"
    rules.write_text(rules.read_text().replace("5/minute", "7/minute"))
    wait_for("the new rules", lambda: weather.weather("ann").status_code == 200, PATIENCE_S)
    assert [weather.weather("ann").status_code for _ in range(2)] == [200, 429]
