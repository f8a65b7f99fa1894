"""Nothing a client sends changes what it is counted by, or who the application takes it for."""

from __future__ import annotations

import contextlib

import pytest

from tests.proxies.client import Client
from tests.proxies.stack import Stack
from tests.proxies.test_refusals import LOGINS

# Everything that could name another client, another request or another verdict.
LIES = {
    "X-Forwarded-For": "203.0.113.{n}",
    "X-Real-IP": "203.0.113.{n}",
    "Forwarded": "for=203.0.113.{n}",
    "True-Client-IP": "203.0.113.{n}",
    "X-Envoy-External-Address": "203.0.113.{n}",
    "X-Original-URI": "/elsewhere/{n}",
    "X-Original-Method": "GET",
    "X-Forwarded-Uri": "/elsewhere/{n}",
    "X-Forwarded-Method": "GET",
    "X-Original-URL": "/elsewhere/{n}",
    "X-Envoy-Original-Path": "/elsewhere/{n}",
    "X-HTTP-Method-Override": "GET",
    "X-Headgate-User": "somebody-{n}",
    "X-Headgate-Tier": "pro",
    "X-Headgate-Status": "200",
}
IDENTITY = ("X-Headgate-User", "X-Headgate-Org", "X-Headgate-Tier", "X-Headgate-Api-Key", "X-Headgate-Status")


def _lies(number: int, **more: str) -> dict[str, str]:
    return {name: value.format(n=number) for name, value in LIES.items()} | more


@pytest.mark.parametrize("name", LIES)
def test_a_header_of_the_clients_own_buys_no_sixth_login(client: Client, name: str) -> None:
    for number in range(LOGINS):
        assert client.login({name: LIES[name].format(n=number)}).status == 200
    assert client.login({name: LIES[name].format(n=LOGINS)}).status == 429


def test_all_of_them_together_buy_no_sixth_login_either(client: Client) -> None:
    for number in range(LOGINS):
        assert client.login(_lies(number)).status == 200
    assert client.login(_lies(LOGINS)).status == 429


def test_headers_named_as_hop_by_hop_are_still_what_the_proxy_says(client: Client) -> None:
    names = "X-Forwarded-For, X-Forwarded-Uri, X-Forwarded-Method, X-Original-URI, X-Original-Method, X-Real-Ip"
    statuses = [client.login(_lies(number, Connection=names)).status for number in range(LOGINS + 1)]
    # Envoy answers such a request with 400, every time.
    assert statuses in ([200] * LOGINS + [429], [400] * (LOGINS + 1))


@pytest.mark.parametrize(
    "query", ["deny_status=200", "deny_status=418", "nonsense=1", "deny_status=403&deny_status=200"]
)
def test_a_query_of_the_clients_own_does_not_change_the_question(client: Client, query: str) -> None:
    for _ in range(LOGINS):
        assert client.login(path=f"/login?{query}").status == 200
    assert client.login(path=f"/login?{query}").status == 429


def test_an_identity_of_the_clients_own_never_reaches_the_application(client: Client) -> None:
    seen = client.get("/", dict.fromkeys(IDENTITY, "root")).seen
    assert {name: seen.header(name) for name in IDENTITY} == dict.fromkeys(IDENTITY)


def test_nor_does_one_spelled_with_underscores_where_the_example_says_so(stack: Stack, client: Client) -> None:
    if stack.front.example == "traefik":
        pytest.skip("Traefik passes such names on, and the example's README says what to do about it")
    seen = client.get("/", {"X_Headgate_User": "root", "X-Headgate_Tier": "pro"}).seen
    assert (seen.header("X-Headgate-User"), seen.header("X-Headgate-Tier")) == (None, None)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Basic " + "x" * 14_000},
        {"Authorization": "Basic " + "x" * 40_000},
        {"Authorization": "Basic " + "x" * 500_000},
        {"X-API-Key": "x" * 40_000},
        {"Cookie": "x" * 40_000},
        {"Cookie": "x" * 900_000},
        {f"X-Filler-{number}": "x" for number in range(150)},
        {f"X-Filler-{number}": "x" for number in range(2_000)},
    ],
    ids=lambda headers: f"{len(headers)}x{max(map(len, headers.values()))}-{next(iter(headers))}",
)
def test_a_request_too_big_to_be_asked_about_is_not_let_through(client: Client, headers: dict[str, str]) -> None:
    for _ in range(LOGINS):
        assert client.login().status == 200
    # A proxy may also hang up on what it does not want to read.
    with contextlib.suppress(ConnectionError):
        assert client.login(headers).status != 200


@pytest.mark.parametrize("length", [4_000, 9_000, 20_000, 60_000])
def test_a_path_too_long_to_be_looked_at_is_not_let_through(client: Client, length: int) -> None:
    with contextlib.suppress(ConnectionError):
        assert client.get("/internal/" + "x" * length).status != 200
