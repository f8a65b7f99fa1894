"""Floods from several connections at once, and an honest client among them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.grpc import wire
from tests.grpc.client import by
from tests.hostile import http2
from tests.hostile.conftest import MEMORY_MB_MAX, Survivor
from tests.hostile.http2 import Raw
from tests.integration.http_node import PATIENCE_S

REQUEST = wire.rate_limit_request("edge", [("user", "flood")])
FLOODERS = 2
CONNECTIONS_EACH = 200
HONEST_CALLS = 25
STREAMS = range(1, 1_001, 2)

# What one connection says before it is made anew.
FLOODS: dict[str, bytes] = {
    "calls that are reset": b"".join(http2.headers(stream) + http2.reset(stream) for stream in STREAMS),
    "whole calls that are reset": b"".join(http2.call(stream, REQUEST) + http2.reset(stream) for stream in STREAMS),
    "calls whose answers are not read": b"".join(http2.call(stream, REQUEST) for stream in STREAMS),
    "pings": http2.ping() * 5_000,
    "settings": http2.settings() * 5_000,
    "heads that go on": http2.headers(1, flags=()) + http2.continuation(1, b"") * 5_000,
    "content of nothing": http2.headers(1) + http2.data(1, b"") * 5_000,
    "garbage": b"\xa5" * 50_000,
    "calls that are no protobuf": b"".join(http2.call(stream, b"\xff") for stream in STREAMS),
}


@contextlib.contextmanager
def flooding(flood: Callable[[], None]) -> Iterator[None]:
    """Again and again from several threads, until the end or until it has been enough."""
    done = threading.Event()

    def run() -> None:
        for _ in range(CONNECTIONS_EACH):
            if done.is_set():
                return
            # What the node does to such a connection is its own affair.
            with contextlib.suppress(OSError):
                flood()

    threads = [threading.Thread(target=run) for _ in range(FLOODERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE_S)


@pytest.mark.parametrize("flood", FLOODS)
def test_an_honest_client_is_answered_in_the_midst_of(survivor: Survivor, flood: str) -> None:
    def once() -> None:
        with Raw.to(survivor.port) as raw:
            raw.socket.settimeout(1.0)
            raw.send(FLOODS[flood])

    with flooding(once):
        for _ in range(HONEST_CALLS):
            assert survivor.client.ask(by(user="honest")).code == "OK"
        assert survivor.node.memory_mb() < MEMORY_MB_MAX
