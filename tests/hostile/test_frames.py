"""Connections that speak HTTP/2 wrongly, or almost rightly."""

from __future__ import annotations

import contextlib
import struct
from random import Random

import pytest
from hyperframe.frame import DataFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from tests.grpc import wire
from tests.grpc.client import by
from tests.hostile import http2
from tests.hostile.conftest import MEMORY_MB_MAX, Start, Survivor
from tests.hostile.http2 import Raw
from tests.integration.http_node import eventually

REQUEST = wire.rate_limit_request("edge", [("user", "hostile")])
HOSTILE_TRIES = 200
WRONG = {
    "data on no stream": http2.raw_frame(0, 0, 0, b"x"),
    "data on an idle stream": http2.data(1, b"x"),
    "headers on a client's wrong stream": http2.headers(2),
    "a stream number that goes back": http2.call(5, REQUEST) + http2.call(3, REQUEST),
    "a frame larger than allowed": http2.raw_frame(0, 0, 1, b"x" * 20_000),
    "settings of a wrong length": http2.raw_frame(4, 0, 0, b"xxx"),
    "settings on a stream": http2.raw_frame(4, 0, 1, b""),
    "an acknowledgement with contents": http2.raw_frame(4, 1, 0, b"\0" * 6),
    "a window of more than 31 bits": http2.raw_frame(4, 0, 0, struct.pack(">HI", 4, 2**31)),
    "a frame size below the least": http2.raw_frame(4, 0, 0, struct.pack(">HI", 5, 1)),
    "a window that overflows": http2.window_update(0, 2**31 - 1) * 2,
    "a window update of nothing": http2.raw_frame(8, 0, 0, struct.pack(">I", 0)),
    "a ping of a wrong length": http2.raw_frame(6, 0, 0, b"x"),
    "a reset of an idle stream": http2.reset(7),
    "a continuation of nothing": http2.continuation(1, b"x"),
    "a push from a client": http2.raw_frame(5, 4, 1, struct.pack(">I", 2) + http2.head()),
    "padding longer than the frame": http2.raw_frame(1, 0x0C, 1, b"\xff" + http2.head()),
    "headers that do not decode": http2.headers(1, b"\xff\xff\xff\xff\xff\xff"),
    "an index beyond the table": http2.headers(1, b"\xfe"),
    "a table larger than allowed": http2.headers(1, b"\x3f\xff\xff\xff\x07"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_frame_ends_its_connection_or_stream_and_no_other(survivor: Survivor, what: str) -> None:
    with Raw.to(survivor.port) as raw:
        raw.send(WRONG[what] + http2.ping(b"at last!"))
        while (frame := raw.frame()) is not None:
            if isinstance(frame, RstStreamFrame):
                break


def test_random_bytes_after_the_preface_end_the_connection(survivor: Survivor) -> None:
    random = Random(4)
    for _ in range(HOSTILE_TRIES):
        with Raw.to(survivor.port, hello=False) as raw:
            raw.send(http2.PREFACE + random.randbytes(random.randrange(1, 400)))
            raw.finish()


def test_random_bytes_instead_of_the_preface_end_the_connection(survivor: Survivor) -> None:
    random = Random(5)
    for _ in range(HOSTILE_TRIES):
        cut = random.randrange(0, len(http2.PREFACE))
        with Raw.to(survivor.port, hello=False) as raw:
            raw.send(http2.PREFACE[:cut] + random.randbytes(random.randrange(1, 64)))
            raw.finish()


def test_a_conversation_with_bytes_changed_anywhere_does_no_harm(survivor: Survivor) -> None:
    random = Random(6)
    good = http2.PREFACE + http2.settings() + b"".join(http2.call(2 * nth + 1, REQUEST) for nth in range(4))
    for _ in range(HOSTILE_TRIES):
        bad = bytearray(good)
        for _ in range(random.randrange(1, 6)):
            bad[random.randrange(len(http2.PREFACE), len(bad))] = random.randrange(256)
        with Raw.to(survivor.port, hello=False) as raw:
            raw.send(bytes(bad))
            raw.finish()


def test_a_message_that_claims_four_gigabytes_is_refused_at_its_head(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        raw.send(http2.headers(1) + http2.data(1, b"\0\xff\xff\xff\xff" + b"x" * 1_000))
        assert raw.answer(1).fields["grpc-status"] == "8"


def test_a_message_sent_without_regard_for_the_window_does_no_harm(survivor: Survivor) -> None:
    """It is cut off where it overtakes the server, and passed over where the server keeps up."""
    with Raw.to(survivor.port) as raw:
        raw.send(http2.headers(1) + http2.data(1, b"\0\0\x0f\0\0"))
        for _ in range(5_000):
            if not raw.send(http2.data(1, b"x" * 16_000)):
                break
        raw.finish()


def test_header_lists_that_unfold_to_gigabytes_are_refused(survivor: Survivor) -> None:
    """An entry of the table is a byte to send and kilobytes to hold."""
    stored = b"\x40" + b"\x01x" + b"\x7f\xa1\x1e" + b"y" * 4_000
    with Raw.to(survivor.port) as raw:
        for nth in range(50):
            block = http2.head() + (stored if nth == 0 else b"") + b"\xbe" * 15_000
            if not raw.send(http2.headers(2 * nth + 1, block)):
                break
        raw.finish()


def test_a_header_block_without_end_is_cut_off(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        raw.send(http2.headers(1, http2.head(), flags=()))
        sent = 0
        while sent < 20_000 and raw.send(http2.continuation(1, b"\x00\x01x\x7f\xff\x7d" + b"y" * 16_000)):
            sent += 1
        assert sent < 20_000
        raw.rest()


def test_empty_continuations_without_end_are_cut_off(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        raw.send(http2.headers(1, http2.head(), flags=()))
        flood, sent = http2.continuation(1, b"") * 1_000, 0
        while sent < 2_000 and raw.send(flood):
            sent += 1
        assert sent < 2_000
        raw.rest()


def test_calls_reset_as_soon_as_they_are_made_are_cut_off_or_cost_nothing(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        for first in range(1, 100_000, 1_000):
            flood = b"".join(http2.headers(stream) + http2.reset(stream) for stream in range(first, first + 1_000, 2))
            if not raw.send(flood):
                break
        raw.finish()


def test_whole_calls_reset_before_their_answer_are_cut_off_or_cost_nothing(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        for first in range(1, 40_000, 1_000):
            streams = range(first, first + 1_000, 2)
            flood = b"".join(http2.call(stream, REQUEST) + http2.reset(stream) for stream in streams)
            if not raw.send(flood):
                break
        raw.finish()


@pytest.mark.parametrize("frame", [http2.ping(), http2.settings(), http2.window_update(0, 1)], ids=lambda f: f[3])
def test_a_flood_of_small_frames_whose_answers_are_never_read_is_held_back(survivor: Survivor, frame: bytes) -> None:
    with Raw.to(survivor.port) as raw:
        raw.socket.settimeout(3.0)
        flood, sent = frame * 1_000, 0
        with contextlib.suppress(TimeoutError):
            while sent < 5_000 and raw.send(flood):
                sent += 1
        assert survivor.node.memory_mb() < MEMORY_MB_MAX


def test_more_calls_at_once_than_allowed_are_refused_one_by_one(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        allowed = raw.until(SettingsFrame)
        most = allowed.settings[SettingsFrame.MAX_CONCURRENT_STREAMS]
        streams = [2 * nth + 1 for nth in range(most + 50)]
        for stream in streams:
            raw.send(http2.headers(stream))
        refused = [raw.until(RstStreamFrame) for _ in range(50)]
        assert {frame.stream_id for frame in refused} == set(streams[most:])
        raw.send(http2.data(1, http2.message(REQUEST), ["END_STREAM"]))
        assert raw.answer(1).fields["grpc-status"] == "0"


def test_answers_nobody_takes_are_not_piled_up(start: Start) -> None:
    """Descriptors are many times larger than the question for them; this client never opens its window."""
    survivor = Survivor(start())
    question = http2.message(wire.field(4, "envoy.service.ratelimit.v3.RateLimitService"))
    path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    with Raw.to(survivor.port, hello=False) as raw:
        raw.send(http2.PREFACE + http2.settings(initial_window_size=0))
        raw.socket.settimeout(3.0)
        with contextlib.suppress(TimeoutError):
            for stream in range(1, 400, 2):
                raw.send(http2.headers(stream, http2.head(path)))
                for _ in range(3):
                    raw.send(http2.data(stream, question * 250))
        raw.send(http2.ping())
        assert survivor.client.ask(by(user="honest")).code == "OK"
        assert survivor.node.memory_mb() < MEMORY_MB_MAX
    survivor.assert_well()


OPEN_CALLS = {
    "a call without a message": http2.headers(1),
    "a call with half a message": http2.headers(1) + http2.data(1, b"\0\0"),
    "a call of no method": http2.headers(1, http2.head("/no/method")),
    "a watch": http2.headers(1, http2.head("/grpc.health.v1.Health/Watch")) + http2.data(1, http2.message(b"")),
    "a reflection": http2.headers(1, http2.head("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")),
}


@pytest.mark.parametrize("call", OPEN_CALLS)
def test_frames_without_content_on_a_call_that_stays_open_are_not_piled_up(survivor: Survivor, call: str) -> None:
    """They pass below every window."""
    with Raw.to(survivor.port) as raw:
        raw.send(OPEN_CALLS[call])
        flood, sent = http2.data(1, b"") * 5_000, 0
        raw.socket.settimeout(3.0)
        with contextlib.suppress(TimeoutError):
            while sent < 600 and raw.send(flood):
                sent += 1
        assert survivor.client.ask(by(user="honest")).code == "OK"
        assert survivor.node.memory_mb() < MEMORY_MB_MAX


WATCH = "/grpc.health.v1.Health/Watch"
WATCHES_MAX = 1_000


def test_more_watches_than_a_node_keeps_are_refused_and_end_with_their_clients(start: Start) -> None:
    """They stay as long as their client does, so there must be an end to them."""
    survivor = Survivor(start())
    streams = range(1, 1_200, 2)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(Raw.to(survivor.port)) for _ in range(2)]
        for raw in connections:
            raw.send(b"".join(http2.call(stream, b"", WATCH) for stream in streams))
        watching = sum(watches(raw, len(streams)) for raw in connections)
        # Two that come at the same moment may both be one too many.
        assert WATCHES_MAX - 10 <= watching <= WATCHES_MAX
    eventually(lambda: may_watch(survivor.port))
    survivor.assert_well()


def watches(raw: Raw, asked: int) -> int:
    """How many of the calls are told how it is; the others have ended."""
    watching = refused = 0
    while watching + refused < asked:
        frame = raw.frame()
        assert frame is not None
        watching += isinstance(frame, DataFrame)
        refused += isinstance(frame, HeadersFrame) and "END_STREAM" in frame.flags
    return watching


def may_watch(port: int) -> bool:
    with Raw.to(port) as raw:
        raw.send(http2.call(1, b"", WATCH))
        return watches(raw, 1) == 1
