"""A gigabyte each way, and clients and upstreams that do not take what they asked for: the gateway does not grow."""

from __future__ import annotations

import contextlib
import threading

import pytest

from tests.gateway import bodies, wire
from tests.gateway.gate import Gate
from tests.gateway.strict import Head
from tests.gateway.upstream import Line, Upstream
from tests.integration.http_node import eventually

GIGABYTE = 2**30
PIECE_BYTES = 2**19
GROWTH_MB_MAX = 64.0
# What the kernel holds for two connections, many times over.
UNDER_WAY_BYTES_MAX = 64 * 2**20


def give(send: wire.Wire | Line, size: int, in_chunks: bool) -> None:
    for at in range(0, size, PIECE_BYTES):
        part = bodies.piece(at, min(PIECE_BYTES, size - at))
        send.send(wire.chunks_of(part) if in_chunks else part)
    if in_chunks:
        send.send(wire.last_chunk())


def take(source: wire.Wire | Line, in_chunks: bool) -> int:
    """Until the last byte there is to be."""
    checked = bodies.Checked()
    while not in_chunks and checked.size < GIGABYTE:
        checked.take(source.stream.read1(PIECE_BYTES))
    while in_chunks and (size := int(source.stream.readline(), 16)):
        checked.take(source.stream.read(size))
        source.stream.read(2)
    if in_chunks:
        assert source.stream.readline() == b"\r\n"
    return checked.size


def framing(in_chunks: bool) -> str:
    return "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {GIGABYTE}"


@pytest.mark.parametrize("in_chunks", [False, True], ids=["length", "chunks"])
def test_a_gigabyte_up_takes_no_memory(gate: Gate, upstream: Upstream, in_chunks: bool) -> None:
    def play(line: Line, head: Head) -> None:
        line.answer(str(take(line, in_chunks)).encode())

    upstream.play = play
    before_mb = gate.memory_mb()
    client = gate.wire()
    client.send(wire.request("POST", "/", framing(in_chunks)))
    give(client, GIGABYTE, in_chunks)
    assert client.answer().body == str(GIGABYTE).encode()
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX


@pytest.mark.parametrize("in_chunks", [False, True], ids=["length", "chunks"])
def test_a_gigabyte_down_takes_no_memory(gate: Gate, upstream: Upstream, in_chunks: bool) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(f"HTTP/1.1 200 OK\r\n{framing(in_chunks)}\r\n\r\n".encode())
        give(line, GIGABYTE, in_chunks)

    upstream.play = play
    before_mb = gate.memory_mb()
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    assert client.head().status == 200
    assert take(client, in_chunks) == GIGABYTE
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX


def test_a_client_that_does_not_read_holds_the_upstream_up(gate: Gate, upstream: Upstream) -> None:
    sent = Sent()

    def play(line: Line, head: Head) -> None:
        line.send(f"HTTP/1.1 200 OK\r\nContent-Length: {GIGABYTE}\r\n\r\n".encode())
        sent.until_refused(line)

    upstream.play = play
    before_mb = gate.memory_mb()
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    assert client.head().status == 200
    eventually(sent.stands_still)
    assert sent.size < UNDER_WAY_BYTES_MAX
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX
    client.reset()
    eventually(sent.is_over.is_set)


def test_an_upstream_that_does_not_read_holds_the_client_up(gate: Gate, upstream: Upstream) -> None:
    sent, gone = Sent(), threading.Event()

    def play(line: Line, head: Head) -> None:
        gone.wait(60)
        line.reset()

    upstream.play = play
    before_mb = gate.memory_mb()
    client = gate.wire()
    client.send(wire.request("POST", "/", f"Content-Length: {GIGABYTE}"))
    threading.Thread(target=sent.until_refused, args=(client,), daemon=True).start()
    eventually(sent.stands_still)
    assert sent.size < UNDER_WAY_BYTES_MAX
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX
    gone.set()
    eventually(sent.is_over.is_set)


class Sent:
    """How much of a gigabyte was taken so far."""

    def __init__(self) -> None:
        self.size = 0
        self.is_over = threading.Event()
        self._looked: list[int] = []

    def until_refused(self, to: wire.Wire | Line) -> None:
        with contextlib.suppress(OSError):
            while self.size < GIGABYTE:
                to.send(bodies.piece(self.size, 65_536))
                self.size += 65_536
        self.is_over.set()

    def stands_still(self) -> bool:
        """No more was taken for fifty looks in a row."""
        self._looked = [*self._looked[-49:], self.size]
        return len(self._looked) == 50 and set(self._looked) == {self.size} and self.size > 0
