"""What HTTP/2 can say and HTTP/1.1 cannot is refused on its way down, and the upstream sees nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway import h2, smuggling_h2, strict
from tests.gateway.gate import SENTINEL, Gate
from tests.gateway.h2 import Connection, Field, fields
from tests.gateway.upstream import Upstream
from tests.hostile import http2

PIECE_BYTES = 16_000
REFUSALS = {None, 400, 405, 431}


@pytest.fixture
def connection(gate: Gate) -> Iterator[Connection]:
    opened = Connection(gate.port("http"))
    yield opened
    opened.close()


def assert_no_request_came_to_its_end(gate: Gate, upstream: Upstream) -> None:
    assert gate.get(SENTINEL).status == 200
    upstream.settle()
    assert upstream.targets == [SENTINEL]
    assert b"/hidden" not in upstream.raw()


@pytest.mark.parametrize("said", smuggling_h2.HEADS.values(), ids=smuggling_h2.HEADS)
def test_a_malformed_request_is_refused(
    gate: Gate, upstream: Upstream, connection: Connection, said: list[Field]
) -> None:
    assert connection.ask(1, said).status in REFUSALS
    assert_no_request_came_to_its_end(gate, upstream)
    assert len(strict.requests(upstream.raw())) == 1


@pytest.mark.parametrize("length", smuggling_h2.LENGTHS)
def test_a_body_of_another_length_never_comes_to_its_end(
    gate: Gate, upstream: Upstream, connection: Connection, length: str
) -> None:
    said = fields(("content-length", length), method="POST")
    assert connection.ask(1, said, b"abcde").status in REFUSALS
    assert_no_request_came_to_its_end(gate, upstream)


@pytest.mark.parametrize("trailers", smuggling_h2.TRAILERS.values(), ids=smuggling_h2.TRAILERS)
def test_trailers_cannot_say_what_a_head_cannot_take_back(
    gate: Gate, upstream: Upstream, connection: Connection, trailers: list[Field]
) -> None:
    """Refused, or the request arrives without them: never passed on."""
    connection.send(h2.opening(1, fields(method="POST"), ends=False), h2.data(1, b"abcde"), h2.opening(1, trailers))
    connection.response(1)
    assert gate.get(SENTINEL).status == 200
    upstream.settle()
    upstream.assert_well()
    assert all(not message.trailers for message in upstream.messages)


@pytest.mark.parametrize("said", smuggling_h2.GOOD.values(), ids=smuggling_h2.GOOD)
def test_its_careful_neighbour_passes(
    gate: Gate, upstream: Upstream, connection: Connection, said: list[Field]
) -> None:
    assert connection.ask(1, said).status == 200
    expected = {str(name): str(value) for name, value in said}
    head = upstream.only.head
    assert head.target == expected[":path"]
    assert head.value("host") == expected.get(":authority", "shop.example")


def test_other_streams_do_not_suffer(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    connection.send(h2.opening(1, fields(("host", "evil.example"))), h2.opening(3, fields(path="/honest")))
    assert connection.response(1).status == 400
    assert connection.response(3).status == 200
    assert upstream.targets == ["/honest"]


def test_a_head_beyond_all_bounds_is_refused(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    large = h2.block(fields(*[(f"x-{number}", "b" * 1000) for number in range(70)]))
    pieces = [large[at : at + PIECE_BYTES] for at in range(0, len(large), PIECE_BYTES)]
    connection.send(http2.headers(1, pieces[0], ["END_STREAM"]))
    for piece in pieces[1:-1]:
        connection.send(http2.continuation(1, piece))
    connection.send(http2.continuation(1, pieces[-1], ["END_HEADERS"]))
    assert connection.response(1).status in REFUSALS
    assert_no_request_came_to_its_end(gate, upstream)


def test_a_large_head_within_them_passes(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    said = [(f"x-{number}", "b" * 1000) for number in range(14)]
    assert connection.ask(1, fields(*said)).status == 200
    assert upstream.only.head.value("x-13") == "b" * 1000
