"""SIGTERM: what is under way is finished, new connections are refused, and nobody waits for ever."""

from __future__ import annotations

import signal
import socket
import threading

import pytest

from tests.gateway import bodies, wire
from tests.gateway.conftest import Start
from tests.gateway.gate import Gate
from tests.gateway.strict import Ended, Head
from tests.gateway.upstream import Line, Upstream
from tests.integration.http_node import PATIENCE_S, eventually

SIZE = 4 * 2**20
LONG = ("--drain-timeout-s", "600")


def terminate(gate: Gate) -> None:
    """Returns once new connections are refused."""
    port = gate.port("http")
    gate.process.send_signal(signal.SIGTERM)
    eventually(lambda: _refuses(port))


def _refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


class Held:
    """An answer whose second half comes when it is let go."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.go_on = threading.Event()
        upstream.play = self.play

    def play(self, line: Line, head: Head) -> None:
        self._upstream.take(line, head)
        line.send(f"HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n".encode() + bodies.body(SIZE)[: SIZE // 2])
        self.go_on.wait(PATIENCE_S)
        line.send(bodies.body(SIZE)[SIZE // 2 :])


def test_a_download_under_way_is_finished_and_its_connection_ended(start: Start, own_upstream: Upstream) -> None:
    gate, held = start(own_upstream, *LONG), Held(own_upstream)
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    assert client.head().status == 200
    terminate(gate)
    held.go_on.set()
    assert client.stream.read(SIZE) == bodies.body(SIZE)
    assert client.has_ended()
    assert gate.process.wait(PATIENCE_S) == 0


def test_an_upload_under_way_is_finished(start: Start, own_upstream: Upstream) -> None:
    gate = start(own_upstream, *LONG)
    client = gate.wire()
    sent = bodies.body(SIZE)
    client.send(wire.request("POST", "/", f"Content-Length: {SIZE}") + sent[:1000])
    eventually(lambda: gate.busy() == 1)
    terminate(gate)
    client.send(sent[1000:])
    reply = client.answer()
    assert (reply.status, own_upstream.only.body) == (200, sent)
    assert reply.header("connection") == "close"
    assert client.has_ended()
    assert gate.process.wait(PATIENCE_S) == 0


def test_a_connection_that_waits_for_its_next_request_does_not_hold_the_end_up(
    start: Start, own_upstream: Upstream
) -> None:
    gate = start(own_upstream, *LONG)
    client = gate.wire()
    assert client.get().status == 200
    gate.process.send_signal(signal.SIGTERM)
    assert client.has_ended()
    assert gate.process.wait(PATIENCE_S) == 0


def test_what_takes_longer_than_the_drain_is_cut_and_never_looks_whole(start: Start, own_upstream: Upstream) -> None:
    gate, held = start(own_upstream, "--drain-timeout-s", "0.5"), Held(own_upstream)
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    gate.process.send_signal(signal.SIGTERM)
    with pytest.raises((Ended, ConnectionError)):
        client.answer()
    gate.process.wait(PATIENCE_S)
    held.go_on.set()


def test_while_it_drains_the_other_doors_say_so(start: Start, own_upstream: Upstream) -> None:
    gate, held = start(own_upstream, *LONG), Held(own_upstream)
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    assert client.head().status == 200
    assert gate.admin("/readyz").status_code == 200
    gate.process.send_signal(signal.SIGTERM)
    held.go_on.set()
    assert client.stream.read(SIZE) == bodies.body(SIZE)
    assert gate.process.wait(PATIENCE_S) == 0
