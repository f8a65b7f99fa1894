"""Clients that are slow, greedy or old: they cost the gateway little and the upstream nothing."""

from __future__ import annotations

import contextlib
import threading

import pytest

from tests.gateway import bodies, h2, wire
from tests.gateway.conftest import Start
from tests.gateway.gate import Gate
from tests.gateway.h2 import fields
from tests.gateway.strict import Head
from tests.gateway.upstream import Line, Upstream
from tests.hostile import http2
from tests.integration.http_node import PATIENCE_S, eventually

GROWTH_MB_MAX = 64.0
GIGABYTE = 2**30
FLOOD = 5_000


def test_a_head_that_does_not_come_in_time_ends_the_connection(start: Start, own_upstream: Upstream) -> None:
    gate = start(own_upstream, "--header-timeout-s", "0.3", "--idle-timeout-s", "0.3")
    whole = wire.request("GET", "/", "X-A: b")
    clients = [gate.wire() for _ in range(4)]
    for client, size in zip(clients, (0, 8, 30, len(whole) - 1), strict=True):
        client.send(whole[:size])
    for client in clients:
        said = client.rest()
        assert said == b"" or said.startswith(b"HTTP/1.1 408 ")
    assert own_upstream.raw() == b""


def test_past_the_most_connections_newcomers_are_told_so(start: Start, own_upstream: Upstream) -> None:
    gate = start(own_upstream, "--max-connections", "2")
    first, second = gate.wire(), gate.wire()
    assert first.get().status == second.get().status == 200
    assert gate.wire().answer().status == 503
    first.close()
    eventually(lambda: _is_served(gate))


def _is_served(gate: Gate) -> bool:
    with contextlib.suppress(ConnectionError):
        return gate.get().status == 200
    return False


def test_a_client_that_never_takes_its_answer_is_left(start: Start, own_upstream: Upstream) -> None:
    gone = threading.Event()

    def play(line: Line, head: Head) -> None:
        with contextlib.suppress(OSError):
            line.answer(bodies.body(64 * 2**20))
        gone.set()

    own_upstream.play = play
    gate = start(own_upstream, "--upstream-timeout-s", "0.5", "--header-timeout-s", "0.5")
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    connection = http2.Raw.to(gate.port("http"), hello=False)
    connection.send(http2.PREFACE + http2.settings(initial_window_size=0) + h2.opening(1, fields()))
    assert gone.wait(PATIENCE_S)
    eventually(lambda: gate.busy() == 0)
    connection.abort()


def test_requests_whose_answers_nobody_reads_are_not_piled_up(gate: Gate, upstream: Upstream) -> None:
    upstream.play = lambda line, _: line.answer(bodies.body(100_000))
    before_mb = gate.memory_mb()
    client = gate.wire()
    client.socket.settimeout(1)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < GIGABYTE:
            sent += client.socket.send(wire.request("GET", "/") * 1000)
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX


def test_a_refused_upload_is_answered_before_it_is_sent(gate: Gate, upstream: Upstream) -> None:
    client = gate.wire()
    client.send(wire.request("POST", "/closed", f"Content-Length: {GIGABYTE}") + bytes(1000))
    assert client.answer().status == 403
    assert upstream.raw() == b""


def test_streams_opened_and_called_off_in_a_flood_do_no_harm(gate: Gate, upstream: Upstream) -> None:
    before_mb = gate.memory_mb()
    flood = http2.Raw.to(gate.port("http"))
    for stream in range(1, 2 * FLOOD, 2):
        if not flood.send(h2.opening(stream, fields()) + http2.reset(stream)):
            break
    flood.abort()
    assert gate.get("/honest").status == 200
    eventually(lambda: gate.busy() == 0)
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX


def test_what_follows_an_upgrade_that_was_not_granted_is_a_request_like_any_other(
    gate: Gate, upstream: Upstream
) -> None:
    """Else anything could be said to the upstream behind a refused upgrade."""
    client = gate.wire()
    upgrade = wire.request("GET", "/plain", "Upgrade: own/1", "Connection: upgrade")
    client.send(upgrade + wire.request("GET", "/closed") + wire.request("GET", "/after"))
    assert [client.answer().status for _ in range(3)] == [200, 403, 200]
    assert upstream.targets == ["/plain", "/after"]


def test_an_upgrade_with_a_body_is_framed_like_any_other(gate: Gate, upstream: Upstream) -> None:
    client = gate.wire()
    hidden = wire.request("GET", "/hidden")
    client.send(wire.request("POST", "/plain", "Upgrade: own/1", "Connection: upgrade", body=hidden))
    if client.answer().status == 200:
        assert upstream.only.body == hidden
    assert "/hidden" not in upstream.targets


OLD = b"GET / HTTP/1.0\r\nHost: shop.example\r\n\r\n"


def test_an_old_client_is_not_sent_chunks(gate: Gate, upstream: Upstream) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    upstream.play = lambda line, _: line.send(chunked + wire.chunks_of(b"in ", b"pieces") + wire.last_chunk("X-A: b"))
    client = gate.wire()
    client.send(OLD)
    head = client.head()
    assert head.value("transfer-encoding") is None
    assert client.rest() == b"in pieces"


def test_an_old_client_is_not_sent_early_answers(gate: Gate, upstream: Upstream) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    upstream.play = lambda line, _: line.send(early + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    client = gate.wire()
    client.send(OLD)
    assert client.head().status == 200
    assert client.rest() == b"ok"
