"""What a client is told when the upstream fails, in every way an upstream can."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from tests.gateway import wire
from tests.gateway.conftest import Start, Upstreams
from tests.gateway.gate import Gate
from tests.gateway.strict import Ended, Head
from tests.gateway.upstream import Line, Play, Upstream
from tests.integration.http_node import eventually

GARBAGE: dict[str, bytes] = {
    "not HTTP": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
    "a status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    "a status of no class": b"HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nab",
    "a length with a sign": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
    "a length beyond all": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nab",
    "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding nobody knows": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a NUL in a value": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a bare CR in a value": b"HTTP/1.1 200 OK\r\nX-A: a\rb\r\nContent-Length: 0\r\n\r\n",
    "a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "a name with a space": b"HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 0\r\n\r\n",
    "a head that never ends": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000,
    "a line that never ends": b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 1_000_000,
    "an upgrade nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
def test_an_upstream_that_does_not_speak_http_is_a_502(gate: Gate, upstream: Upstream, raw: bytes) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(raw)
        line.close()

    upstream.play = play
    before = gate.failures("bad_response")
    reply = gate.get()
    assert reply.status == 502
    assert reply.problem
    assert gate.failures("bad_response") == before + 1
    upstream.play = upstream.answer_all
    assert gate.get().status == 200


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"], ids=["before a byte", "in its head"])
@pytest.mark.parametrize("end", [Line.close, Line.reset], ids=["closed", "reset"])
def test_an_upstream_that_ends_before_it_answers_is_a_502_and_is_not_asked_again(
    gate: Gate, upstream: Upstream, sent: bytes, end: Play
) -> None:
    asked: list[str] = []

    def play(line: Line, head: Head) -> None:
        asked.append(head.target)
        line.send(sent)
        end(line)  # type: ignore[call-arg]

    upstream.play = play
    before = gate.failures("closed")
    reply = gate.get("/once")
    assert (reply.status, asked) == (502, ["/once"])
    assert reply.problem
    assert gate.failures("closed") == before + 1


def test_an_upstream_that_is_not_there_is_a_502(gate: Gate) -> None:
    before = gate.failures("connect")
    client = gate.wire()
    client.send(wire.request("POST", "/down", body=b"kept from nobody"))
    assert (reply := client.answer()).status == 502
    assert "reached" in reply.problem
    assert gate.failures("connect") == before + 1


def test_an_upstream_that_others_vouch_for_is_a_502(gate: Gate, upstreams: Upstreams) -> None:
    """Its certificate is of an authority that was not named: it gets to see nothing."""
    reply = gate.get("/stranger", "X-Secret: 1")
    assert reply.status == 502
    assert reply.problem
    assert upstreams.stranger.raw() == b""


HALVES: dict[str, bytes] = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it",
    "in mid-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf of it",
    "between chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf of it\r\n",
    "in the trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf of it\r\n0\r\nX-A: b\r\n",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf of it\r\nzz\r\n",
}


@pytest.mark.parametrize("raw", HALVES.values(), ids=HALVES)
@pytest.mark.parametrize("end", [Line.close, Line.reset], ids=["closed", "reset"])
def test_half_an_answer_is_never_taken_for_the_whole(gate: Gate, upstream: Upstream, raw: bytes, end: Play) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(raw)
        end(line)  # type: ignore[call-arg]

    upstream.play = play
    try:
        reply = gate.get()
    except (Ended, ConnectionError):
        return
    # What came in one go with its end, or was overtaken by a reset, may be told as the failure that it is.
    assert reply.status == 502


def test_a_client_that_leaves_frees_the_upstream(gate: Gate, upstream: Upstream) -> None:
    asked, heard_the_end = threading.Event(), threading.Event()

    def play(line: Line, head: Head) -> None:
        asked.set()
        if line.heard_the_end():
            heard_the_end.set()

    upstream.play = play
    with gate.wire() as client:
        client.send(wire.request("GET", "/for-ever"))
        assert asked.wait(30)
        assert gate.busy() == 1
    assert heard_the_end.wait(30)
    eventually(lambda: gate.busy() == 0)


def test_an_upstream_that_was_started_again_is_asked_again(start: Start, own_upstream: Upstream) -> None:
    gate = start(own_upstream)
    assert gate.get("/before").status == 200
    own_upstream.refuse()
    assert gate.get("/meanwhile").status == 502
    own_upstream.listen()
    assert [gate.get("/after").status for _ in range(3)] == [200, 200, 200]


def test_a_connection_that_the_upstream_ended_is_not_used_again(gate: Gate, upstream: Upstream) -> None:
    """Each answer is the last on its connection, though it does not say so."""

    def play(line: Line, head: Head) -> None:
        upstream.answer_all(line, head)
        line.close()

    upstream.play = play
    client = gate.wire()
    for number in range(50):
        assert client.get(f"/{number}").status == 200
        eventually(upstream.has_no_line)


def test_nor_is_one_under_tls(gate: Gate, upstreams: Upstreams) -> None:
    def play(line: Line, head: Head) -> None:
        upstreams.tls.answer_all(line, head)
        line.close()

    upstreams.tls.play = play
    client = gate.wire()
    for number in range(20):
        assert client.get(f"/tls/{number}").status == 200
        eventually(upstreams.tls.has_no_line)


def test_a_failure_after_head_has_no_body_and_the_connection_goes_on(gate: Gate, upstream: Upstream) -> None:
    """A body would be read as the beginning of the next answer."""
    upstream.play = lambda line, _: line.close()
    client = gate.wire()
    client.send(wire.request("HEAD", "/"))
    assert client.answer("HEAD").status == 502
    upstream.play = upstream.answer_all
    assert client.get("/next").body == b"ok"


@pytest.mark.parametrize(
    ("asked", "said", "end"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", Line.close),
        (wire.request("GET", "/"), b"\r\nhalf", Line.reset),
    ],
    ids=["to a client of HTTP/1.0", "by a reset"],
)
def test_half_of_what_lasts_until_the_end_is_broken_off(
    gate: Gate, upstream: Upstream, asked: bytes, said: bytes, end: Callable[[Line], None]
) -> None:
    """Nothing but the way it ends tells such an answer from a whole one."""
    client, has_half = gate.wire(), threading.Event()

    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 200 OK\r\n" + said)
        has_half.wait(30)
        end(line)

    upstream.play = play
    client.send(asked)
    assert client.head().status == 200
    assert client.stream.read(4) == b"half"
    has_half.set()
    with pytest.raises(ConnectionError):
        client.stream.read(1)


def test_what_an_upstream_says_after_its_answer_is_nobodys_answer(gate: Gate, upstream: Upstream) -> None:
    """A second answer that nobody asked for must not be given to the next request on that connection."""
    stolen = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"

    def play(line: Line, head: Head) -> None:
        upstream.take(line, head)
        line.send(wire_answer() + stolen)

    upstream.play = play
    assert gate.get("/1").body == b"ok"
    upstream.play = upstream.answer_all
    assert [gate.get(f"/{number}").body for number in range(20)] == [b"ok"] * 20


def wire_answer() -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_with_every_connection_taken_it_is_a_503(start: Start, own_upstream: Upstream) -> None:
    release = threading.Event()

    def play(line: Line, head: Head) -> None:
        release.wait(30)
        own_upstream.answer_all(line, head)

    own_upstream.play = play
    gate = start(own_upstream, "--upstream-connections", "2")
    waiting = [gate.wire(), gate.wire()]
    for client in waiting:
        client.send(wire.request("GET", "/"))
    eventually(lambda: gate.busy() == 2)
    reply = gate.get("/one-too-many")
    assert reply.status == 503
    assert reply.problem
    assert gate.failures("busy") == 1
    release.set()
    assert [client.answer().status for client in waiting] == [200, 200]
    assert gate.get().status == 200


def test_failures_leave_no_connection_behind(gate: Gate) -> None:
    before = gate.open_files()
    for _ in range(50):
        assert gate.get("/down").status == 502
    gate.hang_up()
    eventually(lambda: gate.open_files() <= before + 2)
    assert os.path.exists(f"/proc/{gate.process.pid}")
