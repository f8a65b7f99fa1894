"""The API's own limits, enforced by Headgate itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.control.api.limits import API_RULES
from headgate.storage.sql import Database
from tests.api.plane import Plane, make_plane, problem

RULE = {"by": "user", "limit": "1/s"}


@pytest.fixture
def limited(sqlite: Database) -> Iterator[Plane]:
    with make_plane(sqlite, limits=API_RULES) as made:
        yield made


def test_guesses_are_turned_away_before_the_database_is_asked(limited: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    guess = "hga_" + "a" * 12 + "_" + "A" * 43
    stranger = limited.client(guess)
    statuses = [stranger.get("/api/v1/me").status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    monkeypatch.setattr(limited.app.state.inside.doorman, "admit", None)
    refused = stranger.get("/api/v1/me")
    problem(refused, 429)
    assert int(refused.headers["retry-after"]) >= 1
    problem(limited.client(None).get("/feed/v1/snapshot"), 429)


def test_a_known_caller_behind_the_same_address_is_not_locked_out(limited: Plane) -> None:
    admin = limited.client()
    assert admin.get("/api/v1/me").status_code == 200
    for _ in range(12):
        limited.client("hga_guess").get("/api/v1/me")
    assert admin.get("/api/v1/me").status_code == 200


def test_nor_is_one_that_was_not_seen_for_a_while(limited: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.control.tokens.CACHE_S", 0.0)
    stranger = limited.client("hga_" + "a" * 12 + "_" + "A" * 43)
    assert [stranger.get("/api/v1/me").status_code for _ in range(12)][-1] == 429
    assert limited.client("viewer").get("/api/v1/me").status_code == 200
    assert limited.client("editor").post("/api/v1/blocks", json={"ip": "203.0.113.7", "for": "1h"}).status_code == 201
    problem(limited.client("revoked").get("/api/v1/me"), 429)
    problem(stranger.get("/api/v1/me"), 429)


def test_a_call_cannot_pass_for_one_that_is_not_limited(limited: Plane) -> None:
    client = limited.client("editor")
    statuses = {client.delete("/api/v1/rules/%2E%2E/apply").status_code for _ in range(110)}
    assert statuses == {404, 429}


def test_writing_has_a_limit_and_emergencies_have_their_own(limited: Plane) -> None:
    client = limited.client()
    for _ in range(150):
        last = client.delete("/api/v1/rules/none")
        if last.status_code == 429:
            break
    body = problem(last, 429)
    assert "`writes`" in body["detail"]
    assert client.post("/api/v1/blocks", json={"ip": "203.0.113.7", "for": "1h"}).status_code == 201
    assert client.put("/api/v1/switches/*").status_code == 200
    assert client.post("/api/v1/apply", json={"rules": [RULE | {"name": "a"}]}).status_code == 200
    assert client.get("/api/v1/rules").status_code == 200
    other = limited.client("editor")
    assert other.put("/api/v1/rules/b", json=RULE).status_code == 201, "each token has its own share"


def test_reading_has_a_limit(limited: Plane) -> None:
    client = limited.client("viewer")
    statuses = {client.head("/api/v1/tiers").status_code for _ in range(601)}
    assert statuses == {200, 429}
