"""Requests changed at random: whatever passes, the upstream reads as one request with the body that was sent."""

from __future__ import annotations

import contextlib
import io
import socket
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.gateway import smuggling, strict
from tests.gateway.gate import Gate
from tests.gateway.strict import Ended, NotStrict
from tests.gateway.upstream import Upstream

TRIES = 200
ANSWERED_S = 0.05
LETTERS = [bytes([byte]) for byte in b"\r\n\0 \t:,;\x0b\xa005-+x"]
WORDS = [
    b"\r\n",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"1\r\na\r\n",
    b"chunked",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"Content-Length: 0\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Host: evil.example\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    smuggling.HIDDEN,
]
SEEDS = [raw for raw, _ in smuggling.GOOD.values() if len(raw) < 1000]

Part = tuple[str, bytes]


@dataclass(frozen=True)
class Change:
    """At a place of a request `size` bytes are taken out and others put in."""

    at: int
    size: int
    piece: bytes

    def made(self, raw: bytes) -> bytes:
        at = self.at % (len(raw) + 1)
        return raw[:at] + self.piece + raw[at + self.size :]


pieces = st.sampled_from(LETTERS + WORDS) | st.binary(min_size=1, max_size=3)
changes = st.builds(Change, st.integers(0, 400), st.integers(0, 8), pieces | st.just(b""))


class Record:
    """What was sent and what was seen, by the address it came from: each try has its own, and the gateway tells it.

    So what arrives late is held against what was sent then.
    """

    def __init__(self) -> None:
        self._sent: dict[str, bytes] = {}
        self._seen: dict[str, list[Part]] = {}
        self._looked_at = 0

    def begin(self, raw: bytes) -> str:
        number = len(self._sent)
        source = f"127.78.{number // 250}.{number % 250 + 1}"
        self._sent[source] = raw
        return source

    def check(self, messages: list[strict.Message]) -> None:
        for message in messages[self._looked_at :]:
            source = message.head.value("x-forwarded-for") or ""
            seen = self._seen.setdefault(source, [])
            seen.append((message.head.target, message.body))
            assert seen == strictly(self._sent[source])[: len(seen)], self._sent[source]
        self._looked_at = len(messages)


@pytest.fixture
def record() -> Record:
    return Record()


@settings(max_examples=TRIES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(seed=st.sampled_from(SEEDS), made=st.lists(changes, min_size=1, max_size=3))
def test_whatever_passes_is_what_was_sent(
    gate: Gate, upstream: Upstream, record: Record, seed: bytes, made: list[Change]
) -> None:
    raw = seed
    for change in made:
        raw = change.made(raw)
    note(repr(raw))
    with gate.wire(record.begin(raw)) as client, contextlib.suppress(ConnectionError):
        client.send(raw)
        # Who ends too early is taken to be gone.
        client.is_silent(ANSWERED_S)
        client.socket.shutdown(socket.SHUT_WR)
        client.rest()
    upstream.settle()
    upstream.assert_well()
    record.check(upstream.messages)


def strictly(raw: bytes) -> list[Part]:
    """The requests at the beginning of `raw` that a strict server understands, HTTP/1.0 for 1.1."""
    stream, found = io.BytesIO(raw.replace(b" HTTP/1.0\r\n", b" HTTP/1.1\r\n")), list[Part]()
    with contextlib.suppress(NotStrict, Ended):
        while (message := strict.request(stream)) is not None:
            found.append((message.head.target, message.body))
    return found
