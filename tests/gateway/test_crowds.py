"""Many at once, and that the node's other doors answer meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateway import h2, wire
from tests.gateway.gate import Gate
from tests.gateway.h2 import Connection, fields
from tests.gateway.strict import Head
from tests.gateway.upstream import Line, Upstream
from tests.integration.http_node import PATIENCE_S, eventually

CROWD = 1000
STREAMS_EACH = 100


class Gathering:
    """An upstream that answers nobody before all are there."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.count = 0
        self._lock = threading.Lock()
        self.is_over = threading.Event()
        upstream.play = self.play

    def play(self, line: Line, head: Head) -> None:
        self._upstream.take(line, head)
        with self._lock:
            self.count += 1
        self.is_over.wait(PATIENCE_S)
        line.answer(head.target.encode())

    def wait_for_all(self) -> None:
        eventually(lambda: self.count == CROWD)


@pytest.fixture
def gathering(upstream: Upstream) -> Iterator[Gathering]:
    made = Gathering(upstream)
    yield made
    made.is_over.set()


def test_a_thousand_connections_are_served_at_once(gate: Gate, gathering: Gathering) -> None:
    clients = [gate.wire() for _ in range(CROWD)]
    for number, client in enumerate(clients):
        client.send(wire.request("GET", f"/{number}"))
    gathering.wait_for_all()
    assert gate.busy() == CROWD
    gathering.is_over.set()
    assert [client.answer().body for client in clients] == [b"/%d" % number for number in range(CROWD)]


def test_a_thousand_streams_are_served_at_once(gate: Gate, gathering: Gathering) -> None:
    connections = [Connection(gate.port("http")) for _ in range(CROWD // STREAMS_EACH)]
    streams = range(1, 2 * STREAMS_EACH, 2)
    for number, connection in enumerate(connections):
        connection.send(*(h2.opening(stream, fields(path=f"/{number}/{stream}")) for stream in streams))
    gathering.wait_for_all()
    assert gate.busy() == CROWD
    gathering.is_over.set()
    for number, connection in enumerate(connections):
        bodies = [connection.response(stream).body for stream in streams]
        assert bodies == [f"/{number}/{stream}".encode() for stream in streams]
        connection.close()


def test_other_doors_answer_while_a_slow_upstream_holds_everybody(gate: Gate, gathering: Gathering) -> None:
    """Health, metrics and checks do not stand in the queue of those who wait for the upstream."""
    clients = [gate.wire() for _ in range(CROWD)]
    for client in clients:
        client.send(wire.request("GET", "/"))
    gathering.wait_for_all()
    assert gate.admin("/healthz").status_code == gate.admin("/readyz").status_code == 200
    with wire.Wire.to(gate.port("grpc")) as other:
        for _ in range(20):
            other.send(wire.request("POST", "/v1/check", body=b'{"user": "1"}'))
            assert other.answer().json()["allowed"] is True
    assert gate.get("/app/seen").status == 200


def test_other_doors_answer_while_the_gateway_has_all_it_can_do(gate: Gate, upstream: Upstream) -> None:
    is_over = threading.Event()

    def hurry() -> int:
        with wire.Wire.to(gate.port("http")) as client:
            count = 0
            while not is_over.is_set():
                client.send(wire.request("GET", "/") * 8)
                count += sum(client.answer().status == 200 for _ in range(8))
            return count

    with ThreadPoolExecutor(8) as pool:
        hurrying = [pool.submit(hurry) for _ in range(8)]
        try:
            for _ in range(20):
                assert gate.admin("/healthz").status_code == 200
                time.sleep(0.01)
        finally:
            is_over.set()
        assert all(each.result() > 0 for each in hurrying)
