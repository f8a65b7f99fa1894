"""Clients that take their time to no end: each is ended by the bounds that are set for it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from hyperframe.frame import HeadersFrame

from tests.grpc import wire
from tests.grpc.client import Client, by
from tests.grpc.node_process import NodeProcess
from tests.hostile import http2
from tests.hostile.conftest import Survivor
from tests.hostile.http2 import Raw
from tests.integration.http_node import PATIENCE_S

REQUEST = wire.rate_limit_request("edge", [("user", "slow")])
DRIP_S = 0.05
BOUNDS = ("--header-timeout-s", "0.5", "--idle-timeout-s", "1")
BEGINNINGS = {
    "silence": b"",
    "part of the preface": http2.PREFACE[:10],
    "the preface alone": http2.PREFACE,
    "part of the first frame": http2.PREFACE + http2.settings()[:4],
    "a greeting and nothing more": http2.PREFACE + http2.settings(),
    "part of a head": http2.PREFACE + http2.settings() + http2.headers(1)[:20],
    "a head that is to go on": http2.PREFACE + http2.settings() + http2.headers(1, flags=()),
    "part of an HTTP/1 head": b"POST /v1/check HTTP/1.1\r\nhost: node\r\n",
}


@pytest.fixture(scope="module")
def impatient_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    with NodeProcess(tmp_path_factory.mktemp("node"), *BOUNDS) as node:
        yield Survivor(node)


@pytest.fixture
def impatient(impatient_node: Survivor) -> Iterator[Survivor]:
    yield impatient_node
    impatient_node.assert_well()


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_who_stops_halfway_is_ended(impatient: Survivor, beginning: str) -> None:
    with Raw.to(impatient.port, hello=False) as raw:
        raw.send(BEGINNINGS[beginning])
        raw.rest()


def drip(raw: Raw, content: bytes) -> bool:
    """A byte at a time, for as long as it may take; whether the other side ended it."""
    end = time.monotonic() + PATIENCE_S
    for byte in content:
        if time.monotonic() > end:
            return False
        if not raw.send(bytes([byte])):
            return True
        time.sleep(DRIP_S)
    return False


@pytest.mark.parametrize("content", [http2.PREFACE * 100, b"GET / HTTP/1.1\r\nx: " + b"y" * 5_000], ids=["h2", "h1"])
def test_who_drips_a_greeting_is_ended(impatient: Survivor, content: bytes) -> None:
    with Raw.to(impatient.port, hello=False) as raw:
        assert drip(raw, content[:1] + content[1:2] + content[2:])


def test_who_drips_a_head_is_ended(impatient: Survivor) -> None:
    with Raw.to(impatient.port) as raw:
        assert drip(raw, http2.headers(1, http2.head(**{"x-long": "y" * 5_000})))


def test_who_drips_a_message_is_told_that_time_is_up(impatient: Survivor) -> None:
    whole = http2.message(REQUEST + wire.field(99, b"x" * 5_000))
    with Raw.to(impatient.port) as raw:
        raw.send(http2.headers(1))
        raw.socket.settimeout(DRIP_S)
        answer = None
        for byte in whole:
            raw.send(http2.data(1, bytes([byte])))
            try:
                answer = raw.until(HeadersFrame, stream=1)
            except TimeoutError:
                continue
            break
        assert answer is not None


def test_who_opens_calls_and_sends_no_message_is_told_that_time_is_up(impatient: Survivor) -> None:
    with Raw.to(impatient.port) as raw:
        for stream in range(1, 200, 2):
            raw.send(http2.headers(stream))
        for _ in range(100):
            assert raw.until(HeadersFrame)


def test_who_never_reads_its_answers_is_ended(impatient: Survivor) -> None:
    raw = Raw(socket.create_connection(("127.0.0.1", impatient.port)))
    with raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.socket.settimeout(2.0)
        stream, ended = 1, False
        try:
            while stream < 200_000 and not ended:
                ended = not raw.send(http2.window_update(0, 100) + http2.call(stream, REQUEST))
                stream += 2
        except TimeoutError:
            pass


def test_who_never_opens_its_window_is_ended(impatient: Survivor) -> None:
    with Raw.to(impatient.port, hello=False) as raw:
        raw.send(http2.PREFACE + http2.settings(initial_window_size=0))
        raw.send(b"".join(http2.call(stream, REQUEST) for stream in range(1, 1_000, 2)))
        raw.rest()


def test_slow_clients_do_not_keep_others_waiting(impatient: Survivor) -> None:
    slow = [Raw.to(impatient.port, hello=False) for _ in range(200)]
    try:
        for nth, raw in enumerate(slow):
            raw.send(list(BEGINNINGS.values())[nth % len(BEGINNINGS)])
        with Client(impatient.node.address("grpc")).share_messages(impatient.client) as client:
            assert client.ask(by(user="quick")).code == "OK"
    finally:
        for raw in slow:
            raw.socket.close()


def test_a_client_that_calls_now_and_then_is_kept(impatient: Survivor) -> None:
    with Raw.to(impatient.port) as raw:
        for nth in range(12):
            assert raw.send(http2.call(2 * nth + 1, REQUEST))
            raw.until(HeadersFrame, stream=2 * nth + 1)
            time.sleep(0.2)
