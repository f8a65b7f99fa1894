"""Clients that speak HTTP/2."""

from __future__ import annotations

import hashlib
import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame

from tests.gateway import bodies, h2, wire
from tests.gateway.app import AppServer
from tests.gateway.conftest import Start
from tests.gateway.gate import Gate
from tests.gateway.h2 import Connection, fields
from tests.gateway.strict import Head
from tests.gateway.upstream import Line, Upstream
from tests.hostile import http2
from tests.integration.http_node import PATIENCE_S, eventually
from tests.proxies.tokens import bearer

SIZES = [0, 1, 16_384, 65_536, 1_000_003]
BIG = 8 * 2**20
GROWTH_MB_MAX = 64.0
STREAMS = 100
CANCEL = 8


@pytest.fixture
def connection(gate: Gate) -> Iterator[Connection]:
    opened = Connection(gate.port("http"))
    yield opened
    opened.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("told", [True, False], ids=["length", "no length"])
def test_bodies_of_any_length_go_both_ways(gate: Gate, upstream: Upstream, size: int, told: bool) -> None:
    upstream.play = lambda line, head: line.answer(upstream.take(line, head).body)
    sent = bodies.body(size)
    with gate.client(http2=True) as client:
        reply = client.post("/", content=sent if told else iter([sent[: size // 2], sent[size // 2 :]]))
    assert (reply.status_code, reply.http_version, reply.content) == (200, "HTTP/2", sent)
    if told:
        assert upstream.only.head.value("content-length") == str(size)


def test_a_real_application_gets_and_gives_large_bodies(gate: Gate, app: AppServer) -> None:
    before_mb = gate.memory_mb()
    with gate.client(http2=True) as client:
        sent = bodies.body(BIG)
        assert client.post("/app/digest", content=sent).json()["digest"] == hashlib.sha256(sent).hexdigest()
        checked = bodies.Checked()
        with client.stream("GET", f"/app/bytes?size={BIG}") as answer:
            for part in answer.iter_raw():
                checked.take(part)
    assert checked.size == BIG
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX


def test_trailers_pass_both_ways(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    def play(line: Line, head: Head) -> None:
        upstream.take(line, head)
        line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.send(wire.chunks_of(b"body") + wire.last_chunk("X-Digest: ab"))

    upstream.play = play
    connection.send(
        h2.opening(1, fields(method="POST"), ends=False), h2.data(1, b"sent"), h2.opening(1, [("x-sum", "4")])
    )
    response = connection.response(1)
    assert (response.body, response.trailers) == (b"body", [("x-digest", "ab")])
    assert (upstream.only.body, upstream.only.trailers) == (b"sent", (("x-sum", "4"),))


@pytest.mark.parametrize(("method", "answered"), [("HEAD", b"Content-Length: 123\r\n"), ("GET", b"")])
def test_an_answer_without_a_body(
    gate: Gate, upstream: Upstream, connection: Connection, method: str, answered: bytes
) -> None:
    status = b"200 OK" if method == "HEAD" else b"204 No Content"
    upstream.play = lambda line, _: line.send(b"HTTP/1.1 " + status + b"\r\n" + answered + b"\r\n")
    response = connection.ask(1, fields(method=method))
    assert (response.ended, response.body) == (True, b"")
    assert response.value("content-length") == ("123" if method == "HEAD" else None)


def test_the_upstream_sees_an_ordinary_request(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    said = fields(
        ("cookie", "a=1"),
        ("x-a", "1"),
        ("cookie", "b=2"),
        ("x-a", "2"),
        ("x-headgate-user", "admin"),
        ("te", "trailers"),
    )
    assert connection.ask(1, said).status == 200
    head = upstream.only.head
    assert (head.method, head.target, head.value("host")) == ("GET", "/", "shop.example")
    assert head.value("cookie") == "a=1; b=2"
    assert head.values("x-a") == ["1", "2"]
    assert head.value("x-forwarded-for") == "127.0.0.1"
    assert head.value("x-headgate-user") is None
    assert not {name for name, _ in head.fields if name.startswith(":")}


def test_the_client_sees_no_header_of_http_1(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    old = (
        "Connection: X-Listed",
        "Keep-Alive: timeout=5",
        "X-Listed: gone",
        "Upgrade: h2",
        "X-Kept: 1",
        "RateLimit: x",
    )
    upstream.play = lambda line, _: line.answer(b"ok", "200 OK", *old)
    response = connection.ask(1, fields())
    assert not {name for name, _ in response.fields} & {
        "connection",
        "keep-alive",
        "x-listed",
        "upgrade",
        "transfer-encoding",
    }
    assert response.value("x-kept") == "1"
    assert response.value("x-ratelimit-limit") == "100000000"
    assert "everybody" in (response.value("ratelimit") or "")


def test_refusals_and_failures_are_told_as_over_http_1(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    shown = [(name.lower(), value) for name, value in bearer("many-streams").items()]
    statuses = [connection.ask(stream, fields(*shown, path="/few/x")).status for stream in (1, 3, 5, 7)]
    assert statuses == [200, 200, 200, 429]
    upstream.begin()
    refused = connection.ask(9, fields(*shown, path="/few/x", method="POST"), bodies.body(100_000)[:16_000])
    assert (refused.status, upstream.raw()) == (429, b"")
    assert connection.ask(11, fields(path="/closed")).status == 403
    assert connection.ask(13, fields(("authorization", "Bearer x.y.z"))).status == 401
    failed = connection.ask(15, fields(path="/down"))
    assert (failed.status, failed.value("content-type")) == (502, "application/problem+json")


def test_half_an_answer_is_never_taken_for_the_whole(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
        line.close()

    upstream.play = play
    broken = connection.ask(1, fields())
    assert not broken.ended
    assert broken.reset is not None
    upstream.play = upstream.answer_all
    assert connection.ask(3, fields()).body == b"ok"


def test_a_stream_that_is_called_off_frees_the_upstream(gate: Gate, upstream: Upstream, connection: Connection) -> None:
    asked, heard_the_end = threading.Event(), threading.Event()

    def play(line: Line, head: Head) -> None:
        asked.set()
        if line.heard_the_end():
            heard_the_end.set()

    upstream.play = play
    connection.send(h2.opening(1, fields(path="/for-ever")))
    assert asked.wait(PATIENCE_S)
    connection.send(http2.reset(1, CANCEL))
    assert heard_the_end.wait(PATIENCE_S)
    eventually(lambda: gate.busy() == 0)
    upstream.play = upstream.answer_all
    assert connection.ask(3, fields()).status == 200


def test_an_upload_that_is_called_off_is_never_taken_for_the_whole(
    gate: Gate, upstream: Upstream, connection: Connection
) -> None:
    connection.send(h2.opening(1, fields(method="POST"), ends=False), h2.data(1, b"half"), http2.reset(1, CANCEL))
    assert connection.ask(3, fields(path="/next")).status == 200
    eventually(lambda: gate.busy() == 0)
    upstream.settle()
    assert upstream.targets == ["/next"]


def test_one_stream_that_is_not_read_does_not_hold_the_others_up(
    gate: Gate, upstream: Upstream, connection: Connection
) -> None:
    def play(line: Line, head: Head) -> None:
        upstream.take(line, head)
        line.answer(bodies.body(BIG if head.target == "/big" else 10))

    upstream.play = play
    before_mb = gate.memory_mb()
    stuck = http2.Raw.to(gate.port("http"))
    # There is room on the connection; the first stream's own is soon full.
    stuck.send(http2.window_update(0, 2**30))
    stuck.send(h2.opening(1, fields(path="/big")))
    for stream in range(3, 43, 2):
        stuck.send(h2.opening(stream, fields(path="/small")))
    ended: set[int] = set()
    while len(ended) < 20 and (frame := stuck.frame()) is not None:
        if "END_STREAM" in frame.flags:
            ended.add(frame.stream_id)
    stuck.abort()
    assert ended == set(range(3, 43, 2))
    assert gate.memory_mb() < before_mb + GROWTH_MB_MAX


def test_a_drain_finishes_streams_and_tells_the_connection(start: Start, own_upstream: Upstream) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def play(line: Line, head: Head) -> None:
        asked.set()
        go_on.wait(PATIENCE_S)
        own_upstream.answer_all(line, head)

    own_upstream.play = play
    gate = start(own_upstream, "--drain-timeout-s", "600")
    connection = Connection(gate.port("http"))
    connection.send(h2.opening(1, fields()))
    assert asked.wait(PATIENCE_S)
    gate.process.send_signal(signal.SIGTERM)
    while connection.goaway is None:
        assert connection.read()
    go_on.set()
    assert connection.response(1).body == b"ok"
    connection.close()
    assert gate.process.wait(PATIENCE_S) == 0


def test_many_streams_that_are_not_read_are_held_up_and_not_in_memory(gate: Gate, upstream: Upstream) -> None:
    upstream.play = lambda line, _: line.answer(bodies.body(2**20))
    before_mb = gate.memory_mb()
    stuck = http2.Raw.to(gate.port("http"), hello=False)
    stuck.send(http2.PREFACE + http2.settings(initial_window_size=2**30) + http2.window_update(0, 2**30))
    stuck.send(b"".join(h2.opening(2 * number + 1, fields()) for number in range(STREAMS)))
    eventually(lambda: gate.samples("headgate_upstream_connections", state="busy") == STREAMS)
    grown_mb = 0.0
    while (now_mb := gate.memory_mb() - before_mb) > grown_mb:
        grown_mb = now_mb
        threading.Event().wait(0.5)
    stuck.abort()
    assert grown_mb < STREAMS * 0.2


def test_a_drain_leaves_a_slow_client_its_time_for_the_last_of_an_answer(start: Start, own_upstream: Upstream) -> None:
    """The upstream is done with it long before the client."""
    asked, go_on = threading.Event(), threading.Event()

    def play(line: Line, head: Head) -> None:
        asked.set()
        go_on.wait(PATIENCE_S)
        line.answer(bytes(BIG))

    own_upstream.play = play
    gate = start(own_upstream, "--drain-timeout-s", "600")
    client = http2.Raw.to(gate.port("http"), hello=False)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.send(http2.PREFACE + http2.settings(initial_window_size=2**30) + http2.window_update(0, 2**30))
    client.send(h2.opening(1, fields()))
    assert asked.wait(PATIENCE_S)
    gate.process.send_signal(signal.SIGTERM)
    while not isinstance(frame := client.frame(), GoAwayFrame):
        assert frame is not None
    # Longer than a connection without calls is waited for.
    threading.Event().wait(1.2)
    go_on.set()
    got = 0
    while (frame := client.frame()) is not None:
        if isinstance(frame, DataFrame):
            got += len(frame.data)
            threading.Event().wait(0.01)
            if "END_STREAM" in frame.flags:
                break
    assert got == BIG
    client.abort()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ([(f"x-{n}", "y") for n in range(90)], 200),
        ([(f"x-{n}", "y") for n in range(101)], 431),
        ([("expect", "more")], 417),
    ],
    ids=["many fields", "too many fields", "an expectation nobody knows"],
)
def test_what_http1_would_not_take_is_refused_here_too(
    gate: Gate, upstream: Upstream, connection: Connection, more: list[h2.Field], status: int
) -> None:
    assert connection.ask(1, fields(*more)).status == status
    assert (upstream.raw() == b"") == (status != 200)
