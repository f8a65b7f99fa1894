"""HTTP/1 as clients really speak it, well or badly, and what a node puts up with."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.integration.conftest import Starter
from tests.integration.http_node import PATIENCE_S, Node, Wire, eventually, request

CHECK = '{"user":"42"}'
CONTINUE = "expect: 100-continue"


def drained(node: Node, timeout_s: float = PATIENCE_S) -> tuple[threading.Thread, list[bool]]:
    """Drains beside the test; returns once nothing new is taken in."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(node.server.drain(timeout_s)))
    thread.start()
    eventually(node.refuses_connections)
    return thread, answers


def test_http_1_0_is_answered_and_closed(node: Node) -> None:
    with node.connect() as wire:
        wire.send(f"POST /v1/check HTTP/1.0\r\ncontent-length: {len(CHECK)}\r\n\r\n{CHECK}")
        reply = wire.reply()
        assert (reply.status, reply.json()["allowed"]) == (200, True)
        assert wire.rest() == b""


def test_http_1_0_stays_when_asked_to(node: Node) -> None:
    with node.connect() as wire:
        for _ in range(3):
            wire.send("GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            assert wire.reply().headers["connection"] == "keep-alive"


def test_connection_close_is_honoured(node: Node) -> None:
    with node.connect() as wire:
        wire.ask("GET", "/healthz", "", "connection: close")
        assert wire.reply().headers["connection"] == "close"
        assert wire.rest() == b""


def test_pipelined_requests_are_answered_in_order(node: Node) -> None:
    paths = ["/v1/check"] * 6 + ["/nowhere", "/v1/check"]
    with node.connect() as wire:
        wire.send("".join(request("POST", path, CHECK) for path in paths) + request("GET", "/healthz"))
        replies = [wire.reply() for _ in range(9)]
    assert [reply.status for reply in replies] == [200] * 6 + [404, 200, 200]
    assert [reply.json()["remaining"] for reply in replies[:6]] == [4, 3, 2, 1, 0, 0]


def test_a_mistake_does_not_end_the_connection(node: Node) -> None:
    with node.connect() as wire:
        for body, status in (("{", 400), (CHECK, 200), ("[]", 400), (CHECK, 200)):
            wire.ask("POST", "/v1/check", body)
            assert wire.reply().status == status
    assert node.remaining() == 3


def test_a_request_may_come_byte_by_byte(node: Node) -> None:
    with node.connect() as wire:
        for letter in request("POST", "/v1/check", CHECK):
            wire.send(letter)
        assert wire.reply().json()["remaining"] == 4


def test_a_chunked_body_is_read_with_extensions_and_trailers(node: Node) -> None:
    with node.connect() as wire:
        wire.ask("POST", "/v1/check", "", "transfer-encoding: chunked")
        wire.send('8;a=b\r\n{"user":\r\n5\r\n"42"}\r\n0\r\nx-sum: 1\r\n\r\n')
        assert wire.reply().json()["remaining"] == 4
        wire.ask("GET", "/healthz")
        assert wire.reply().status == 200


@pytest.mark.parametrize("chunks", ["zz\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "2\r\n{}XX", "2{}\r\n0\r\n\r\n"])
def test_bad_chunks_are_a_400_and_count_nothing(node: Node, chunks: str) -> None:
    with node.connect() as wire:
        wire.ask("POST", "/v1/check", "", "transfer-encoding: chunked")
        wire.send(chunks)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.reply().status == 400
    assert node.decided() == 0


def test_a_client_that_asks_first_is_told_to_go_on(node: Node) -> None:
    with node.connect() as wire:
        wire.send(request("POST", "/v1/check", CHECK, CONTINUE).removesuffix(CHECK))
        assert wire.reply().status == 100
        wire.send(CHECK)
        assert wire.reply().json()["remaining"] == 4


def test_a_client_that_asks_first_with_too_much_is_refused_at_once(node: Node) -> None:
    with node.connect() as wire:
        wire.send(f"POST /v1/check HTTP/1.1\r\n{CONTINUE}\r\ncontent-length: 65537\r\n\r\n")
        assert wire.reply().status == 413
        assert wire.rest() == b""


@pytest.mark.parametrize(
    "head",
    [
        "POST /v1/check HTTP/1.1\r\ncontent-length: 13\r\ncontent-length: 12\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nbad header: x\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nx: a\x00b\r\n\r\n",
        "POST /v1/check HTTP/9.9\r\n\r\n",
        "POST /v1/check\r\n\r\n",
        "\x16\x03\x01\x02\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused_and_closed(node: Node, head: str) -> None:
    with node.connect() as wire:
        wire.send(head + CHECK)
        assert wire.reply().status == 400
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.rest() == b""
    assert node.decided() == 0


def test_a_head_past_its_bound_is_a_431(node: Node) -> None:
    with node.connect() as wire:
        wire.ask("GET", "/healthz", "", "x: " + "a" * 40_000)
        assert wire.reply().status == 431
    assert node.is_healthy()


@pytest.mark.parametrize("path", ["/v1/check", "/nowhere", "/healthz"])
def test_a_client_that_sends_a_long_body_first_still_gets_its_answer(run: Starter, tmp_path: Path, path: str) -> None:
    """On a Unix socket, whose small buffers make the client wait for the server to read."""
    node = run(listen=None, uds=str(tmp_path / "hg.sock"))
    with node.connect() as wire:
        wire.ask("POST", path, "x" * 900_000)
        reply = wire.reply()
        assert reply.status == 413
        assert "1970" not in reply.headers["date"], "the first answer knows the time too"


@pytest.mark.parametrize("sent", ["GET /hea", request("POST", "/v1/check", CHECK)[:-1], ""], ids=["head", "body", "-"])
def test_what_never_ends_is_cut_off_and_counts_nothing(run: Starter, sent: str) -> None:
    node = run(header_timeout=0.2, idle_timeout=0.2)
    with node.connect() as wire:
        wire.send(sent)
        assert wire.rest() == b""
    assert node.is_healthy()
    assert node.decided() == 0


def test_a_head_that_drips_is_cut_off_all_the_same(run: Starter) -> None:
    node = run(header_timeout=0.2)
    with node.connect() as wire:

        def cut_off() -> bool:
            try:
                wire.send("x")
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        wire.send("GET /healthz HTTP/1.1\r\nx: ")
        eventually(cut_off)
    assert node.is_healthy()


def test_connections_past_the_limit_are_told_to_come_back(run: Starter) -> None:
    node = run(max_connections=2)
    kept = [node.connect() for _ in range(2)]
    for wire in kept:
        wire.ask("GET", "/healthz")
        assert wire.reply().status == 200
    with node.connect() as refused:
        reply = refused.reply()
        assert refused.rest() == b""
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["status"] == 503
    kept[0].ask("GET", "/healthz")
    assert kept[0].reply().status == 200
    kept[1].close()

    def there_is_room() -> bool:
        with node.connect() as wire:
            wire.ask("GET", "/healthz")
            return wire.reply().status == 200

    eventually(there_is_room)


def test_many_idle_connections_leave_room_for_others_and_all_still_work(run: Starter) -> None:
    node = run()
    idle = [node.connect() for _ in range(300)]
    assert node.is_healthy()
    eventually(lambda: node.metrics()["headgate_http_connections"] == 301)
    for wire in idle:
        wire.ask("GET", "/healthz")
    assert {wire.reply().status for wire in idle} == {200}


def test_clients_that_vanish_leave_nothing_behind(run: Starter) -> None:
    node = run()
    whole = request("POST", "/v1/check", CHECK)
    for sent in ["", "P", whole[:30], whole[:-1], request("GET", "/metrics") * 50]:
        for _ in range(20):
            wire = node.connect()
            wire.send(sent)
            wire.reset()
    eventually(lambda: node.metrics()["headgate_http_connections"] == 1)
    assert node.decided() == 0
    assert node.is_healthy()


def test_a_client_that_stops_sending_is_still_answered(node: Node) -> None:
    with node.connect() as wire:
        wire.ask("POST", "/v1/check", CHECK)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.reply().status == 200
        assert wire.rest() == b""


def test_what_came_before_the_start_is_answered_after_it(bind: Starter) -> None:
    node = bind()
    with node.connect() as wire:
        wire.ask("POST", "/v1/check", CHECK)
        node.server.start()
        assert wire.reply().json()["remaining"] == 4
    with pytest.raises(OSError, match="starts once"):
        node.server.start()


def test_draining_finishes_the_request_under_way_and_closes_the_rest(node: Node) -> None:
    idle, busy = node.connect(), node.connect()
    idle.ask("GET", "/healthz")
    assert idle.reply().status == 200
    busy.send(request("POST", "/v1/check", CHECK, CONTINUE).removesuffix(CHECK))
    assert busy.reply().status == 100
    thread, answers = drained(node)
    assert idle.rest() == b""
    busy.send(CHECK)
    reply = busy.reply()
    assert (reply.json()["remaining"], reply.headers["connection"]) == (4, "close")
    assert busy.rest() == b""
    thread.join(PATIENCE_S)
    assert answers == [True]
    assert node.server.drain(PATIENCE_S)


def test_a_draining_node_says_it_is_not_ready(run: Starter) -> None:
    node = run(threads=1)
    wire = node.connect()
    wire.send("GET /readyz HTTP/1.1\r\n")
    assert node.is_healthy()
    thread, answers = drained(node)
    wire.send("\r\n")
    reply = wire.reply()
    assert (reply.status, reply.json()["ready"], reply.json()["rules"]) == (503, False, 3)
    thread.join(PATIENCE_S)
    assert answers == [True]


def under_way(node: Node) -> Wire:
    wire = node.connect()
    wire.send(request("POST", "/v1/check", CHECK, CONTINUE).removesuffix(CHECK))
    assert wire.reply().status == 100
    return wire


def test_draining_is_cut_short_by_its_timeout(node: Node) -> None:
    wire = under_way(node)
    assert not node.server.drain(0.05)
    assert wire.rest() == b""
    assert node.remaining() == 5


def test_draining_does_not_wait_for_a_request_longer_than_it_may_take(run: Starter) -> None:
    node = run(header_timeout=0.2)
    under_way(node)
    assert node.server.drain(3.0)


def test_half_a_head_behind_a_whole_request_is_cut_off_too(run: Starter) -> None:
    with run(header_timeout=0.2, idle_timeout=600.0).connect() as wire:
        wire.socket.settimeout(3.0)
        wire.send(request("GET", "/healthz") + "GET /hea")
        assert wire.reply().status == 200
        assert wire.rest() == b""
