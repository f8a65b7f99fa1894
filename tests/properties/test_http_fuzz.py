"""Whatever bytes come in over HTTP, they are answered or cut off: never a 5xx, never a hang, and others are served."""

from __future__ import annotations

import copy
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.http_node import Node, Reply
from tests.properties.strategies import examples, places

POSTS = ["/v1/check", "/v1/checks", "/v1/limit", "/v1/check?headers=true", "/v1/limit?headers=true"]
FACTS: dict[str, Any] = {
    "user": "42",
    "api_key": 7,
    "org": "acme",
    "ip": "198.51.100.7",
    "tier": "free",
    "method": "POST",
    "path": "/a/b",
    "region": "eu",
    "descriptors": {"plan": "basic", "seats": 9},
    "cost": 2,
}
VALID: dict[str, Any] = {
    "/v1/check": FACTS,
    "/v1/checks": [FACTS, {"user": "1"}, {}],
    "/v1/limit": {"key": "k", "limit": 5, "window": 60, "cost": 1, "algorithm": "gcra", "burst": 9},
}
WORDS = """
user api_key org ip tier method path region descriptors cost key limit window algorithm burst 5/minute 60s gcra
5/minute;9/hour sliding_log fixed_window sliding_window_counter 1/ms 10/second|burst|20 ::1 ::ffff:1.2.3.4
/a/../b /%2e%2e/%zz 366|days 1000000000000/year
"""
words = st.sampled_from([word.replace("|", " ") for word in WORDS.split()])
numbers = st.one_of(
    st.integers(-2, 100),
    st.integers(),
    st.floats(),
    st.sampled_from([2**31, 2**53, 2**63, 2**64 - 1, 2**64, 10**12, 10**12 + 1, 1e308, 5e-324, -0.0, 31_622_400]),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, words, st.text(max_size=20))
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=8), inner, max_size=5),
)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    rules: list[dict[str, Any]] = [
        {"name": "user", "by": "user", "limit": "5/minute;50/hour"},
        {"name": "path", "by": ["ip", "endpoint"], "limit": "9/minute burst 3", "match": {"endpoint": "/a/{x}"}},
        {"name": "plan", "by": ["org", "plan"], "limit": "3/second", "algorithm": "sliding_log"},
        {"name": "seen", "by": "global", "limit": "1/day", "action": "shadow"},
        {"name": "no", "match": {"user": "x"}, "action": "block"},
    ]
    # A short timeout, so that what is cut off does not hold the test up; a real answer takes far less.
    node = Node.bound(rules, listen="127.0.0.1:0", threads=1, header_timeout=1.0, idle_timeout=1.0)
    node.server.start()
    yield node
    assert node.is_healthy()
    metrics = node.metrics()
    node.end()
    assert not [sample for sample in metrics if 'status="5' in sample]


def answered(node: Node, path: str, body: bytes) -> Reply:
    with node.connect() as wire:
        wire.send(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        reply = wire.reply()
        assert reply.status in (200, 400), reply
        value = reply.json()
        if reply.status == 400:
            assert reply.headers["content-type"] == "application/problem+json"
            assert value["detail"]
        # Whatever was said, the connection goes on.
        wire.send("GET /healthz HTTP/1.1\r\n\r\n")
        assert wire.reply().status == 200
    return reply


@examples(150)
@given(path=st.sampled_from(POSTS), body=st.binary(max_size=200))
def test_any_bytes_are_answered(node: Node, path: str, body: bytes) -> None:
    answered(node, path, body)


@examples(250)
@given(path=st.sampled_from(POSTS), value=anything, ascii_only=st.booleans())
def test_any_json_is_answered(node: Node, path: str, value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    answered(node, path, text.encode("utf-8", "surrogatepass"))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good request with a few values replaced, removed or renamed, and perhaps a few bytes as well."""
    path = draw(st.sampled_from(sorted(VALID)))
    value = copy.deepcopy(VALID[path])
    for _ in range(draw(st.integers(0, 3))):
        found = list(places(value))
        if not found:
            break
        parent, key = found[draw(st.integers(0, len(found) - 1))]
        how = draw(st.integers(0, 3))
        if how == 0:
            del parent[key]
        elif how == 1 and isinstance(parent, dict):
            parent[draw(words)] = parent.pop(key)
        else:
            parent[key] = draw(leaves if how == 2 else anything)
    body = json.dumps(value).encode()
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=3)) + body[at + draw(st.integers(0, 3)) :]
    return path, body


@examples(400)
@given(asked=mutated())
def test_a_damaged_request_is_answered(node: Node, asked: tuple[str, bytes]) -> None:
    answered(node, *asked)


@pytest.mark.parametrize("path", sorted(VALID))
def test_the_requests_the_mutations_start_from_are_good(node: Node, path: str) -> None:
    assert answered(node, path, json.dumps(VALID[path]).encode()).status == 200


PIECES = """
GET| POST| HEAD| /healthz /v1/check ?headers=true | |HTTP/1.1 |HTTP/1.0 |HTTP/2.0 ~ ~~ host:|x content-length:|2
content-length:|99 content-length:|-1 transfer-encoding:|chunked transfer-encoding:|x expect:|100-continue
connection:|close connection:|upgrade upgrade:|h2c {} 0~~ 2~{}~0~~ PRI|*|HTTP/2.0~~SM~~ : ;
"""
pieces = st.sampled_from([piece.replace("|", " ").replace("~", "\r\n").encode() for piece in PIECES.split()])
garbage = st.one_of(
    st.binary(max_size=300),
    st.lists(st.one_of(pieces, pieces, pieces, st.binary(max_size=4)), max_size=14).map(b"".join),
)


@examples(250)
@given(data=garbage)
def test_garbage_on_the_socket_is_refused_or_cut_off_and_others_are_served(node: Node, data: bytes) -> None:
    with node.connect() as wire:
        wire.send(data)
        wire.socket.shutdown(socket.SHUT_WR)
        said = wire.rest()
    # HTTP/2 is answered in its own frames, of which the first tells settings.
    is_http2 = data.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") and said[3:4] == b"\x04"
    assert said == b"" or said.startswith(b"HTTP/1.") or is_http2, said
    assert b"HTTP/1.1 5" not in said
    assert b"HTTP/1.0 5" not in said
    assert node.is_healthy()


@examples(60)
@given(head=st.lists(pieces, max_size=6).map(b"".join), data=st.binary(max_size=60), cut=st.integers(0, 90))
def test_clients_that_vanish_within_garbage_hurt_nobody(node: Node, head: bytes, data: bytes, cut: int) -> None:
    wire = node.connect()
    wire.send((b"POST /v1/check HTTP/1.1\r\n" + head + data)[:cut])
    wire.reset()
    assert node.is_healthy()
