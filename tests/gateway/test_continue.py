"""`Expect: 100-continue` and other answers before the answer."""

from __future__ import annotations

import threading

from tests.gateway import wire
from tests.gateway.gate import Gate
from tests.gateway.strict import Head
from tests.gateway.upstream import Line, Upstream
from tests.proxies.tokens import bearer

EXPECT = ("Expect: 100-continue", "Content-Length: 4")


def test_the_body_is_asked_for_by_the_upstream_alone(gate: Gate, upstream: Upstream) -> None:
    """Whoever waits for a word before it sends gets it when the upstream says it, not before."""
    asked, may_go_on = threading.Event(), threading.Event()

    def play(line: Line, head: Head) -> None:
        assert head.value("expect") == "100-continue"
        asked.set()
        may_go_on.wait(30)
        line.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        line.answer(upstream.take(line, head).body)

    upstream.play = play
    client = gate.wire()
    client.send(wire.request("POST", "/", *EXPECT))
    assert asked.wait(30)
    assert client.is_silent()
    may_go_on.set()
    assert client.head().status == 100
    client.send(b"body")
    assert client.answer().body == b"body"


def test_the_upstream_may_refuse_before_the_body(gate: Gate, upstream: Upstream) -> None:
    upstream.play = lambda line, _: line.answer(b"no", "417 Expectation Failed", "Connection: close")
    client = gate.wire()
    client.send(wire.request("POST", "/", *EXPECT))
    assert (reply := client.answer()).status == 417, reply
    assert b"body" not in upstream.raw()


def test_a_refused_request_is_not_asked_for_its_body(gate: Gate, upstream: Upstream) -> None:
    shown = [f"{name}: {value}" for name, value in bearer("impatient").items()]
    for _ in range(3):
        assert gate.get("/few/x", *shown).status == 200
    upstream.begin()
    client = gate.wire()
    client.send(wire.request("POST", "/few/x", *EXPECT, *shown))
    assert client.answer().status == 429
    assert upstream.raw() == b""


def test_a_client_need_not_wait(gate: Gate, upstream: Upstream) -> None:
    def play(line: Line, head: Head) -> None:
        line.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        line.answer(upstream.take(line, head).body)

    upstream.play = play
    client = gate.wire()
    client.send(wire.request("POST", "/", *EXPECT) + b"body")
    replies = [client.answer()]
    while replies[-1].status == 100:
        replies.append(client.answer())
    assert replies[-1].body == b"body"
    upstream.play = upstream.answer_all
    assert client.get("/next").body == b"ok"


def test_answers_before_the_answer_do_not_disturb_it(gate: Gate, upstream: Upstream) -> None:
    """An upstream may say 102 or 103 as often as it likes; what follows is the answer."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    upstream.play = lambda line, _: line.send(early * 3 + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    client = gate.wire()
    for _ in range(2):
        client.send(wire.request("GET", "/"))
        while (reply := client.answer()).status == 103:
            assert reply.header("link") == "</a.css>"
        assert (reply.status, reply.body) == (200, b"ok")
        assert reply.header("x-ratelimit-limit") is not None


def test_an_endless_row_of_early_answers_is_a_failure(gate: Gate, upstream: Upstream) -> None:
    def play(line: Line, head: Head) -> None:
        while True:
            line.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" * 100)

    upstream.play = play
    client = gate.wire()
    client.send(wire.request("GET", "/"))
    while (reply := client.answer()).status == 103:
        pass
    assert reply.status == 502
