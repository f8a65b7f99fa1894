"""Verified credentials name the user, for Headgate's counters and for the application; any others name nobody."""

from __future__ import annotations

import pytest

from tests.proxies.client import Client, Seen
from tests.proxies.stack import Stack
from tests.proxies.tokens import Known, bearer

# Of `free`, or of `per-user` in Envoy's, in the examples' rules.
REQUESTS = 20
WHAT = ("User", "Tier", "Org", "Api-Key")


def _identity(seen: Seen) -> list[str | None]:
    return [seen.header(f"X-Headgate-{what}") for what in WHAT]


def test_the_application_is_told_who_asks(client: Client) -> None:
    seen = client.get("/", {**bearer("42", tier="pro", org="acme"), "X-Headgate-User": "root"}).seen
    assert _identity(seen) == ["42", "pro", "acme", None]


def test_the_application_is_told_by_which_api_key(client: Client, known: Known) -> None:
    seen = client.get("/", {"X-API-Key": known.key, "X-Headgate-Api-Key": "root"}).seen
    assert _identity(seen) == ["7", "pro", None, known.key_id]


def test_a_user_is_counted_wherever_the_requests_come_from(stack: Stack) -> None:
    user = bearer(f"traveller-{stack.front}")
    statuses = [stack.client().get("/", user).status for _ in range(REQUESTS)]
    refused = stack.client().get("/", user)
    assert (set(statuses), refused.status) == ({200}, 429)
    assert refused.headers["x-headgate-rule"] in ("free", "per-user")
    assert stack.client().get("/", bearer(f"neighbour-{stack.front}")).status == 200


def test_a_verified_tier_has_its_own_limit(stack: Stack, client: Client) -> None:
    paying = bearer(f"paying-{stack.front}", tier="pro")
    assert {client.get("/", paying).status for _ in range(REQUESTS + 5)} == {200}


@pytest.mark.parametrize(
    "authorization",
    [
        bearer("42", secret=b"another secret of more than thirty-two bytes")["Authorization"],
        bearer("42", alg="none")["Authorization"].rpartition(".")[0] + ".",
        bearer("42", exp=1)["Authorization"],
        "Bearer nonsense",
        "Bearer",
    ],
    ids=["signed-by-another", "unsigned", "expired", "nonsense", "empty"],
)
def test_a_token_that_does_not_verify_reaches_nobody(stack: Stack, client: Client, authorization: str) -> None:
    answer = client.get("/", {"Authorization": authorization})
    assert answer.status == stack.front.unverified_status
    if answer.status == 401:
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert b'"x-forwarded-for"' not in answer.body


def test_a_client_without_credentials_is_anonymous(client: Client) -> None:
    assert _identity(client.get("/").seen) == [None] * len(WHAT)
