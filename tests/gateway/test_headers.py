"""Which headers are passed on, which are not, and which the gateway adds."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.gateway import wire
from tests.gateway.conftest import Start
from tests.gateway.gate import TRUSTED, Gate
from tests.gateway.strict import Head
from tests.gateway.upstream import Upstream
from tests.integration.http_node import eventually
from tests.proxies.tokens import Known, bearer
from tests.servers.ports import HOST

HOP_BY_HOP = [
    "Keep-Alive: timeout=5",
    "Proxy-Connection: keep-alive",
    "Proxy-Authorization: Basic eDp5",
    "TE: gzip",
    "X-Listed: gone",
]


def lines(fields: dict[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in fields.items()]


def names(head: Head) -> set[str]:
    return {name for name, _ in head.fields}


def test_what_is_between_two_neighbours_is_not_passed_on(gate: Gate, upstream: Upstream) -> None:
    assert gate.get("/", "Connection: keep-alive, X-Listed", "X-Kept: 1", *HOP_BY_HOP).status == 200
    seen = names(upstream.only.head)
    assert "x-kept" in seen
    gone = {"keep-alive", "proxy-connection", "proxy-authorization", "x-listed", "upgrade"}
    assert not seen & gone
    assert "x-listed" not in (upstream.only.head.value("connection") or "").lower()
    assert upstream.only.head.value("te") in (None, "trailers")


def test_nor_is_it_passed_back(gate: Gate, upstream: Upstream) -> None:
    fields = (
        "Connection: X-Listed",
        "Keep-Alive: timeout=5",
        "X-Listed: gone",
        "Proxy-Authenticate: Basic",
        "X-Kept: 1",
    )
    upstream.play = lambda line, _: line.answer(b"ok", "200 OK", *fields)
    head = gate.get().head
    assert head.value("x-kept") == "1"
    assert not names(head) & {"keep-alive", "x-listed", "proxy-connection"}


@pytest.mark.parametrize(
    "listed", ["Content-Length", "Host", "Transfer-Encoding", "X-Forwarded-For", "X-Headgate-User"]
)
def test_connection_cannot_take_away_what_the_upstream_relies_on(gate: Gate, upstream: Upstream, listed: str) -> None:
    """A header that frames, routes or vouches for a request, named there, arrives nevertheless; or all is refused."""
    shown = lines(bearer("listed"))
    raw = wire.request("POST", "/x", f"Connection: close, {listed}", *shown, body=b"sent")
    if gate.says(raw).status == 400:
        assert upstream.raw() == b""
        return
    seen = upstream.only
    assert seen.body == b"sent"
    assert seen.head.value("host") == "shop.example"
    assert seen.head.value("x-forwarded-for") == HOST
    assert seen.head.value("x-headgate-user") == "listed"


def test_everything_else_arrives_as_it_was_sent_in_order(gate: Gate, upstream: Upstream) -> None:
    sent = [
        "Accept: a, b",
        "Cookie: x=1; y=2",
        "X-Twice: 1",
        "X-Twice: 2",
        "X-Empty:",
        "X-Latin: caf\xe9",
        'X-Quoted: "a, b"',
    ]
    assert gate.get("/p%20q?a=b&c", *sent).status == 200
    head = upstream.only.head
    expected = [tuple(part.strip() for part in line.split(":", 1)) for line in sent]
    kept = [(name, value) for name, value in head.fields if name in {name.lower() for name, _ in expected}]
    assert kept == [(name.lower(), value) for name, value in expected]
    assert head.target == "/p%20q?a=b&c"


def test_everything_else_comes_back_as_it_was_sent_in_order(gate: Gate, upstream: Upstream) -> None:
    sent = [
        "Set-Cookie: a=1",
        "Set-Cookie: b=2; Path=/",
        "Server: theirs",
        "Date: Tue, 01 Jan 2030 00:00:00 GMT",
        "X-Latin: caf\xe9",
    ]
    upstream.play = lambda line, _: line.answer(b"made", "201 Made Just So", *sent)
    head = gate.get().head
    kept = [f"{name}: {value}" for name, value in head.fields if name in ("set-cookie", "server", "date", "x-latin")]
    assert [line.lower() for line in kept] == [line.lower() for line in sent]
    assert head.status == 201


@pytest.mark.parametrize("host", ["shop.example", "shop.example:8080", "[::1]:8080", "SHOP.example"])
def test_the_host_is_the_one_the_client_asked_for(gate: Gate, upstream: Upstream, host: str) -> None:
    assert gate.says(wire.request("GET", "/", host=host)).status == 200
    assert upstream.only.head.value("host") == host
    assert upstream.only.head.value("x-forwarded-host") == host


LIES = [
    "X-Forwarded-For: 203.0.113.1",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: evil.example",
    "Forwarded: for=203.0.113.1;proto=https",
]


def test_an_untrusted_client_cannot_say_where_it_comes_from(gate: Gate, upstream: Upstream) -> None:
    assert gate.get("/", *LIES).status == 200
    head = upstream.only.head
    assert head.value("x-forwarded-for") == HOST
    assert head.value("x-forwarded-proto") == "http"
    assert head.value("x-forwarded-host") == "shop.example"
    forwarded = head.value("forwarded") or ""
    assert f"for={HOST}" in forwarded
    assert "203.0.113.1" not in str(head)
    assert "evil" not in str(head)


def test_what_a_trusted_proxy_says_is_added_to(gate: Gate, upstream: Upstream) -> None:
    assert gate.get("/", *LIES, source=TRUSTED).status == 200
    head = upstream.only.head
    assert head.value("x-forwarded-for") == f"203.0.113.1, {TRUSTED}"
    assert head.value("x-forwarded-proto") == "https"
    assert head.value("x-forwarded-host") == "evil.example"
    forwarded = (head.value("forwarded") or "").split(",")
    assert len(forwarded) == 2
    assert f"for={TRUSTED}" in forwarded[1]


def test_an_address_of_six_is_written_as_each_header_has_it(start: Start, own_upstream: Upstream) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    gate = start(own_upstream, "--http", "[::1]:0")
    try:
        connected = socket.create_connection(("::1", gate.port("http")), 30)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with wire.Wire(connected) as client:
        assert client.get().status == 200
    head = own_upstream.only.head
    assert head.value("x-forwarded-for") == "::1"
    assert 'for="[::1]"' in (head.value("forwarded") or "")


SPOOFED = [
    "X-Headgate-User",
    "x-headgate-user",
    "X_Headgate_User",
    "X-Headgate_Org",
    "x_headgate-tier",
    "X-Headgate-Api-Key",
    "X.Headgate.User",
    "X~Headgate-User",
    "X-Headgate-Anything",
]


@pytest.mark.parametrize("name", SPOOFED)
@pytest.mark.parametrize("source", [HOST, TRUSTED], ids=["client", "proxy"])
def test_nobody_can_say_who_they_are(gate: Gate, upstream: Upstream, name: str, source: str) -> None:
    """Not with a dash nor an underscore, which many applications take for the same, nor with what some do."""
    assert gate.get("/", f"{name}: admin", source=source).status == 200
    assert not [name for name, _ in upstream.only.head.fields if re.sub(r"\W|_", "-", name).startswith("x-headgate")]


@pytest.mark.parametrize("name", ["X_Forwarded_For", "X_Forwarded-Host", "X-Forwarded_Proto", "X.Forwarded.For"])
def test_nor_where_they_come_from_with_an_underscore(gate: Gate, upstream: Upstream, name: str) -> None:
    assert gate.get("/", f"{name}: 203.0.113.1").status == 200
    assert "203.0.113.1" not in str(upstream.only.head)


@pytest.mark.parametrize("name", ["X_API_Key", "X.Api-Key"])
def test_a_key_that_only_the_upstream_would_read_is_refused(
    gate: Gate, upstream: Upstream, known: Known, name: str
) -> None:
    """It would be served as its owner and counted as nobody."""
    assert gate.get("/", f"{name}: {known.key}").status == 400
    assert not upstream.messages


def test_the_upstream_is_told_whom_the_gateway_verified(gate: Gate, upstream: Upstream, known: Known) -> None:
    token = lines(bearer("ann", org="acme", tier="pro"))
    assert gate.get("/", *token, "X-Headgate-User: admin").status == 200
    head = upstream.only.head
    told = [head.value(f"x-headgate-{fact}") for fact in ("user", "org", "tier", "api-key")]
    assert told == ["ann", "acme", "pro", None]
    upstream.begin()
    assert gate.get("/", f"X-API-Key: {known.key}").status == 200
    head = upstream.only.head
    told = [head.value(f"x-headgate-{fact}") for fact in ("user", "org", "tier", "api-key")]
    assert told == ["7", None, "pro", known.key_id]


def test_credentials_that_are_not_good_get_401_and_the_upstream_sees_nothing(gate: Gate, upstream: Upstream) -> None:
    reply = gate.get("/", *lines(bearer("mallory", secret=b"x" * 40)))
    assert reply.status == 401
    assert reply.header("www-authenticate") is not None
    assert gate.get("/", "X-API-Key: guessed").status == 401
    assert upstream.raw() == b""


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
def test_credentials_come_once_or_not_at_all(gate: Gate, upstream: Upstream, name: str) -> None:
    """Of two the application might believe the other."""
    (token,) = bearer("ann").values()
    assert gate.get("/", f"{name}: {token}", f"{name}: Bearer x").status == 400
    assert gate.get("/", f"{name}: Bearer x", f"{name.lower()}: {token}").status == 400
    assert upstream.raw() == b""


def test_an_admitted_answer_tells_of_the_rate_and_not_what_the_upstream_made_up(gate: Gate, upstream: Upstream) -> None:
    made_up = (
        "X-RateLimit-Limit: 7",
        "X-RateLimit-Remaining: 8",
        "X-RateLimit-Reset: 9",
        "RateLimit: x",
        "RateLimit-Policy: y",
    )
    upstream.play = lambda line, _: line.answer(b"ok", "200 OK", *made_up)
    reply = gate.get("/few/x", *lines(bearer("counted")))
    told = [reply.header(name) for name in ("x-ratelimit-limit", "x-ratelimit-remaining")]
    assert told == ["3", "2"]
    assert '"few";r=2' in (reply.header("ratelimit") or "")
    assert '"few";q=3' in (reply.header("ratelimit-policy") or "")
    assert int(reply.header("x-ratelimit-reset") or 0) > 1000


def test_answers_on_one_connection_tell_each_of_its_own_policies(start: Start, own_upstream: Upstream) -> None:
    """Also after the rules have changed under it."""
    rules: list[dict[str, Any]] = [
        {"name": "shop", "match": {"endpoint": "/shop/*"}, "by": "ip", "limit": "100/hour"},
        {"name": "all", "by": "global", "limit": "1000/hour"},
    ]
    gate = start(own_upstream, rules=rules)
    client = gate.wire()
    told = [client.get(path).header("ratelimit-policy") for path in ("/shop/1", "/", "/shop/2", "/shop/3")]
    assert told == [
        '"shop";q=100;w=3600, "all";q=1000;w=3600',
        '"all";q=1000;w=3600',
        '"shop";q=100;w=3600, "all";q=1000;w=3600',
        '"shop";q=100;w=3600, "all";q=1000;w=3600',
    ]
    gate.write_rules([{**rules[0], "limit": "200/hour"}, rules[1]])
    eventually(lambda: client.get("/shop/1").header("ratelimit-policy") == '"shop";q=200;w=3600, "all";q=1000;w=3600')


def test_a_refused_answer_is_whole_and_the_connection_goes_on(gate: Gate, upstream: Upstream) -> None:
    shown = lines(bearer("eager"))
    client = gate.wire()
    assert [client.get("/few/x", *shown).status for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/few/x", *shown)
    assert refused.json()["error"]
    assert int(refused.header("retry-after") or 0) > 0
    assert refused.header("x-ratelimit-remaining") == "0"
    assert client.get("/others", *shown).status == 200
    assert upstream.targets == ["/few/x"] * 3 + ["/others"]


def test_a_block_is_403_and_the_upstream_sees_nothing(gate: Gate, upstream: Upstream) -> None:
    client = gate.wire()
    client.send(wire.request("POST", "/closed", body=b"x" * 1000))
    assert client.answer().status == 403
    assert upstream.raw() == b""


def test_a_failure_tells_of_the_rate_as_well(gate: Gate) -> None:
    """It was counted: the client may know."""
    assert gate.get("/down").header("x-ratelimit-limit") == "100000000"


def test_the_log_has_no_secret(gate: Gate, known: Known, tmp_path: Path) -> None:
    gate.get("/down", f"X-API-Key: {known.key}", "Cookie: session=very-secret")
    assert known.key not in gate.log()
    assert "very-secret" not in gate.log()
