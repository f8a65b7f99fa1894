"""Bodies go through whole, both ways, however they are framed."""

from __future__ import annotations

import hashlib
import threading

import pytest

from tests.gateway import bodies, wire
from tests.gateway.app import AppServer
from tests.gateway.gate import Gate
from tests.gateway.strict import Ended, Head
from tests.gateway.upstream import Line, Upstream

SIZES = [0, 1, 1023, 16_384, 65_536, 65_537, 1_000_003]
BIG = 32 * 2**20


@pytest.mark.parametrize("size", SIZES)
def test_a_request_of_any_length_arrives_as_it_was_sent(gate: Gate, upstream: Upstream, size: int) -> None:
    sent = bodies.body(size)
    assert gate.says(wire.request("POST", "/", body=sent)).status == 200
    assert upstream.only.body == sent


@pytest.mark.parametrize("size", SIZES)
def test_a_request_in_chunks_arrives_as_it_was_sent(gate: Gate, upstream: Upstream, size: int) -> None:
    sent = bodies.body(size)
    chunks = [sent[at : at + 9_999] for at in range(0, size, 9_999)]
    assert gate.says(wire.in_chunks("PUT", "/", *chunks)).status == 200
    assert upstream.only.body == sent
    assert upstream.only.head.value("transfer-encoding") == "chunked"


def test_a_request_that_comes_byte_by_byte_arrives_as_it_was_sent(gate: Gate, upstream: Upstream) -> None:
    client = gate.wire()
    for byte in wire.in_chunks("POST", "/slowly", b"one", b"two", trailers=("X-Sum: 6",)):
        client.send(bytes([byte]))
    assert client.answer().status == 200
    assert (upstream.only.body, upstream.only.trailers) == (b"onetwo", (("x-sum", "6"),))


@pytest.mark.parametrize("size", SIZES)
def test_an_answer_of_any_length_arrives_as_it_was_sent(gate: Gate, upstream: Upstream, size: int) -> None:
    upstream.play = lambda line, _: line.answer(bodies.body(size))
    reply = gate.get()
    assert reply.header("content-length") == str(size)
    assert reply.body == bodies.body(size)


@pytest.mark.parametrize("size", SIZES)
def test_an_answer_in_chunks_arrives_as_it_was_sent(gate: Gate, upstream: Upstream, size: int) -> None:
    sent = bodies.body(size)
    chunks = [sent[at : at + 7_777] for at in range(0, size, 7_777)]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    upstream.play = lambda line, _: line.send(head + wire.chunks_of(*chunks) + wire.last_chunk())
    reply = gate.get()
    assert reply.header("transfer-encoding") == "chunked"
    assert reply.body == sent


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("size", SIZES)
def test_an_answer_that_ends_with_the_connection_arrives_whole(
    gate: Gate, upstream: Upstream, version: str, size: int
) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(f"HTTP/{version} 200 OK\r\nContent-Type: text/plain\r\n\r\n".encode() + bodies.body(size))
        line.close()

    upstream.play = play
    reply = gate.get()
    assert (reply.status, reply.body) == (200, bodies.body(size))


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_an_answer_without_a_body_ends_with_its_head(gate: Gate, upstream: Upstream, status: str) -> None:
    upstream.play = lambda line, _: line.send(f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode())
    client = gate.wire()
    assert client.get("/1").header("etag") == "x"
    assert client.get("/2").status == int(status[:3])


def test_the_answer_to_head_has_the_length_and_no_body(gate: Gate, upstream: Upstream) -> None:
    client = gate.wire()
    upstream.play = lambda line, _: line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n")
    client.send(wire.request("HEAD", "/"))
    assert client.answer("HEAD").header("content-length") == "12345"
    upstream.play = lambda line, _: line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.send(wire.request("HEAD", "/"))
    assert client.answer("HEAD").status == 200
    upstream.play = upstream.answer_all
    assert client.get().body == b"ok"


def test_trailers_pass_both_ways(gate: Gate, upstream: Upstream) -> None:
    def play(line: Line, head: Head) -> None:
        upstream.take(line, head)
        line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Digest\r\n\r\n")
        line.send(wire.chunks_of(b"body") + wire.last_chunk("X-Digest: ab", "X-More: c"))

    upstream.play = play
    reply = gate.says(wire.in_chunks("POST", "/", b"sent", trailers=("X-Sum: 4",), fields=("Trailer: X-Sum",)))
    assert (reply.body, reply.trailers) == (b"body", (("x-digest", "ab"), ("x-more", "c")))
    assert upstream.only.trailers == (("x-sum", "4"),)


def test_an_answer_may_begin_before_the_request_is_whole(gate: Gate, upstream: Upstream) -> None:
    """Both go on at the same time: what is said of the first half is heard before the second is sent."""

    def play(line: Line, head: Head) -> None:
        assert line.stream.read(5) == b"first"
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        assert line.stream.read(6) == b"second"
        line.send(b"rest")

    upstream.play = play
    client = gate.wire()
    client.send(wire.request("POST", "/", "Content-Length: 11") + b"first")
    head = client.head()
    assert client.stream.read(4) == b"half"
    client.send(b"second")
    assert (head.status, client.stream.read(4)) == (200, b"rest")


def test_an_early_refusal_by_the_upstream_reaches_a_client_that_still_sends(gate: Gate, upstream: Upstream) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
        line.close()

    upstream.play = play
    client = gate.wire()
    client.send(wire.request("POST", "/", "Content-Length: 100000000"))
    sending = threading.Thread(target=client.send_what_is_taken, args=(100_000_000,))
    sending.start()
    reply = client.answer()
    client.close()
    sending.join()
    assert (reply.status, reply.body) == (413, b"big")


def test_requests_sent_at_once_are_answered_in_order(gate: Gate, upstream: Upstream) -> None:
    upstream.play = lambda line, head: line.answer(upstream.take(line, head).head.target.encode())
    client = gate.wire()
    posts = wire.request("POST", "/1", body=b"x" * 3_000) + wire.in_chunks("POST", "/2", b"y" * 3_000)
    client.send(posts + wire.request("GET", "/3") + wire.request("HEAD", "/4") + wire.request("GET", "/5"))
    replies = [client.answer("HEAD" if number == 4 else "GET") for number in range(1, 6)]
    assert [reply.body for reply in replies] == [b"/1", b"/2", b"/3", b"", b"/5"]
    assert upstream.targets == ["/1", "/2", "/3", "/4", "/5"]


def test_connections_to_the_upstream_are_used_again(gate: Gate, upstream: Upstream) -> None:
    before = len(upstream.lines)
    for number in range(100):
        with gate.wire() as client:
            assert client.get(f"/{number}").status == client.get(f"/{number}").status == 200
    # A thread may have one of its own.
    assert len(upstream.lines) <= before + 4
    assert len(upstream.messages) == 200


def test_half_a_body_is_never_taken_for_the_whole(gate: Gate, upstream: Upstream) -> None:
    """A client that leaves in mid-body: the upstream sees a broken request, not a short one."""
    gone = threading.Event()

    def play(line: Line, head: Head) -> None:
        with pytest.raises((Ended, OSError)):
            line.finish(head)
        gone.set()
        line.close()

    upstream.play = play
    for raw in (wire.request("POST", "/", "Content-Length: 100") + b"half", wire.in_chunks("POST", "/", b"half")[:-5]):
        gone.clear()
        client = gate.wire()
        client.send(raw)
        client.close()
        assert gone.wait(30)


def test_a_real_application_gets_and_gives_large_bodies(gate: Gate, app: AppServer) -> None:
    with gate.client() as client:
        sent = bodies.body(BIG)
        assert client.post("/app/digest", content=sent).json()["digest"] == hashlib.sha256(sent).hexdigest()
        in_chunks = client.post("/app/digest", content=iter([sent[:1000], sent[1000:]])).json()
        assert in_chunks["digest"] == hashlib.sha256(sent).hexdigest()
        checked = bodies.Checked()
        with client.stream("GET", f"/app/bytes?size={BIG}") as answer:
            for part in answer.iter_raw():
                checked.take(part)
        assert checked.size == BIG


def test_what_is_streamed_is_passed_on_at_once(gate: Gate, app: AppServer) -> None:
    """An event for every byte, each heard before the next byte is sent."""
    client = gate.wire()
    client.send(wire.request("POST", "/app/events", "Transfer-Encoding: chunked"))
    heard = b""
    for letter in b"abc":
        client.send(wire.chunks_of(bytes([letter])))
        if letter == ord("a"):
            assert client.head().status == 200
        while b"data: %c\n" % letter not in heard:
            heard += client.stream.read1(1000)
    client.send(wire.last_chunk())
