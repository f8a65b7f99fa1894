"""How long a gateway waits for an upstream, and for a client."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.gateway import wire
from tests.gateway.conftest import Start
from tests.gateway.gate import Gate
from tests.gateway.strict import Ended, Head
from tests.gateway.upstream import Line, Upstream
from tests.integration.http_node import eventually
from tests.servers.ports import HOST, free_port

QUICK = ("--upstream-timeout-s", "1", "--upstream-connect-timeout-s", "1")
PAUSE_S = 0.05
SLOWLY_READ_BYTES = 6 * 2**20


@pytest.fixture(scope="module")
def quick_upstream() -> Iterator[Upstream]:
    with Upstream() as made:
        yield made


@pytest.fixture(scope="module")
def shared_quick(quick_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    full = Full()
    with Gate(
        tmp_path_factory.mktemp("quick"), f"{quick_upstream.url},/full=http://{HOST}:{full.port}", *QUICK
    ) as gate:
        yield gate
    full.close()


@pytest.fixture
def quick(shared_quick: Gate, quick_upstream: Upstream) -> Iterator[Gate]:
    """A gateway that waits a second for anything."""
    quick_upstream.begin()
    yield shared_quick
    shared_quick.hang_up()
    eventually(lambda: shared_quick.busy() == 0)


class Full:
    """A listener whose queue is full: connections to it are neither taken nor refused."""

    def __init__(self) -> None:
        self.port = free_port()
        self._listener = socket.create_server((HOST, self.port), backlog=0)
        self._waiting: list[socket.socket] = []
        while self._is_taken():
            assert len(self._waiting) < 100

    def _is_taken(self) -> bool:
        self._waiting.append(socket.socket())
        self._waiting[-1].settimeout(0.3)
        try:
            self._waiting[-1].connect((HOST, self.port))
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        for waiting in (self._listener, *self._waiting):
            waiting.close()


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n"], ids=["nothing", "half a head"])
def test_an_upstream_that_does_not_answer_is_a_504(quick: Gate, quick_upstream: Upstream, sent: bytes) -> None:
    heard_the_end = threading.Event()

    def play(line: Line, head: Head) -> None:
        line.send(sent)
        if line.heard_the_end():
            heard_the_end.set()

    quick_upstream.play = play
    before = quick.failures("timeout")
    reply = quick.get()
    assert reply.status == 504
    assert reply.problem
    assert heard_the_end.wait(30), "it still holds the connection"
    assert quick.failures("timeout") == before + 1


def test_an_upstream_that_takes_no_connections_is_a_504(quick: Gate) -> None:
    before = quick.failures("connect_timeout")
    reply = quick.get("/full")
    assert reply.status == 504
    assert reply.problem
    assert quick.failures("connect_timeout") == before + 1


def test_slow_is_not_too_slow_as_long_as_something_comes(quick: Gate, quick_upstream: Upstream) -> None:
    """The time-out is for no byte at all; all together may take as long as it likes."""

    said = b"patience, and again patience!"

    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said))
        for byte in said:
            time.sleep(PAUSE_S)
            line.send(bytes([byte]))

    quick_upstream.play = play
    assert quick.get().body == said


def test_an_answer_that_stops_coming_is_broken_off(quick: Gate, quick_upstream: Upstream) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
        line.heard_the_end()

    quick_upstream.play = play
    with pytest.raises((Ended, ConnectionError)):
        quick.get()


def test_a_request_that_stops_coming_is_a_408(start: Start, own_upstream: Upstream) -> None:
    gate = start(own_upstream, "--header-timeout-s", "0.5", "--upstream-timeout-s", "0.5")
    client = gate.wire()
    client.send(wire.request("POST", "/", "Content-Length: 100") + b"half")
    assert client.answer().status == 408
    assert client.has_ended()


def test_an_upstream_that_stops_reading_is_a_504(quick: Gate, quick_upstream: Upstream) -> None:
    is_over = threading.Event()

    def play(line: Line, head: Head) -> None:
        is_over.wait(30)
        line.reset()

    quick_upstream.play = play
    client = quick.wire()
    client.send(wire.request("POST", "/", "Content-Length: 100000000"))
    sending = threading.Thread(target=client.send_what_is_taken, args=(100_000_000,))
    sending.start()
    try:
        assert client.answer().status == 504
    finally:
        client.close()
        sending.join()
        is_over.set()


def test_part_of_a_head_that_came_ahead_has_its_time_like_any_other(start: Start, own_upstream: Upstream) -> None:
    gate = start(own_upstream, "--header-timeout-s", "0.5")
    client = gate.wire()
    client.send(wire.request("GET", "/") + b"GET / HTTP/1.1\r\nHo")
    assert client.answer().status == 200
    assert client.has_ended()


def test_a_client_that_reads_slowly_gets_all_of_it(quick: Gate, quick_upstream: Upstream) -> None:
    """What the kernel holds for it must not hide that it reads."""
    quick_upstream.play = lambda line, _: line.answer(bytes(SLOWLY_READ_BYTES))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.settimeout(30)
        client.connect((HOST, quick.port("http")))
        client.sendall(wire.request("GET", "/", "Connection: close"))
        got = 0
        while came := client.recv(16_384):
            got += len(came)
            threading.Event().wait(0.01)
    assert got > SLOWLY_READ_BYTES
