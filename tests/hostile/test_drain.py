"""SIGTERM with calls under way: they finish, and everybody is told."""

from __future__ import annotations

import signal
import socket

import pytest
from hyperframe.frame import GoAwayFrame, HeadersFrame

from tests.grpc import wire
from tests.grpc.client import HEALTH, by
from tests.grpc.node_process import NodeProcess
from tests.hostile import http2
from tests.hostile.conftest import Start
from tests.hostile.http2 import Raw
from tests.integration.http_node import PATIENCE_S, eventually
from tests.servers.server import Server

REQUEST = wire.rate_limit_request("edge", [("user", "last")])
MESSAGE = http2.message(REQUEST)


def refuses_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except ConnectionRefusedError:
        return True
    return False


def terminate(node: NodeProcess, port: int) -> None:
    node.process.send_signal(signal.SIGTERM)
    eventually(lambda: refuses_connections(port))


def test_calls_under_way_are_finished_and_the_connection_is_told(start: Start) -> None:
    node = start("--drain-timeout-s", "600")
    port = node.port()
    with Raw.to(port) as raw:
        raw.send(http2.call(1, REQUEST))
        assert raw.answer(1).fields["grpc-status"] == "0"
        raw.send(http2.headers(3) + http2.data(3, MESSAGE[:7]) + http2.ping())
        raw.frame()
        terminate(node, port)
        raw.until(GoAwayFrame)
        raw.send(http2.data(3, MESSAGE[7:], ["END_STREAM"]))
        answer = raw.answer(3)
        assert answer.fields["grpc-status"] == "0"
        assert answer.content
    assert node.process.wait(PATIENCE_S) == 0


def test_a_connection_that_has_nothing_under_way_does_not_hold_the_end_up(start: Start) -> None:
    node = start("--drain-timeout-s", "600")
    with Raw.to(node.port()) as raw:
        raw.send(http2.call(1, REQUEST))
        raw.answer(1)
        node.process.send_signal(signal.SIGTERM)
        assert raw.goaway() is not None
    assert node.process.wait(PATIENCE_S) == 0


def test_a_watch_is_told_that_the_node_stops_serving_and_does_not_hold_the_end_up(start: Start) -> None:
    node = start("--drain-timeout-s", "600")
    client = node.client()
    assert client.health() == "SERVING"
    call = client.channel.unary_stream(f"/{HEALTH}/Watch")(b"", timeout=PATIENCE_S)
    assert client.health_status(next(call)) == "SERVING"
    node.process.send_signal(signal.SIGTERM)
    assert client.health_status(next(call)) == "NOT_SERVING"
    assert list(call) == []
    assert node.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("beginning", [b"", http2.PREFACE[:9], http2.PREFACE + http2.settings() + http2.headers(1)])
def test_a_client_that_never_finishes_is_left_behind_when_time_is_up(start: Start, beginning: bytes) -> None:
    node = start("--drain-timeout-s", "0.5", "--header-timeout-s", "600", "--idle-timeout-s", "600")
    with Raw.to(node.port(), hello=False) as raw:
        raw.send(beginning)
        node.process.send_signal(signal.SIGTERM)
        node.process.wait(PATIENCE_S)
        raw.rest()


def test_new_calls_on_a_connection_that_was_told_are_not_answered_by_halves(start: Start) -> None:
    """What is sent after GOAWAY was heard is either answered whole or not at all, so that it can be sent elsewhere."""
    node = start("--drain-timeout-s", "600")
    port = node.port()
    with Raw.to(port) as raw:
        raw.send(http2.headers(1) + http2.data(1, MESSAGE[:7]) + http2.ping())
        terminate(node, port)
        told = raw.until(GoAwayFrame)
        raw.send(http2.call(3, REQUEST) + http2.data(1, MESSAGE[7:], ["END_STREAM"]))
        heads = [frame.stream_id for frame in raw.frames() if isinstance(frame, HeadersFrame)]
        assert 1 in heads
        assert told.last_stream_id >= 1
    assert node.process.wait(PATIENCE_S) == 0


def test_a_connection_that_begins_while_the_node_drains_does_not_hold_the_end_up(start: Start) -> None:
    """Whoever was let in and has not spoken yet is heard, told of the end, and then it is over."""
    node = start("--drain-timeout-s", "12", "--idle-timeout-s", "600")
    port = node.port()
    with Raw.to(port, hello=False) as raw:
        raw.send(http2.PREFACE[:10])
        terminate(node, port)
        raw.send(http2.PREFACE[10:] + http2.settings() + http2.call(1, REQUEST))
        raw.rest()
    assert node.process.wait(PATIENCE_S) == 0


def test_calls_that_wait_for_the_store_are_finished(start: Start) -> None:
    with Server() as store:
        node = start("--drain-timeout-s", "600", "--store", store.url, "--store-deadline-ms", "60000")
        client, port = node.client(), node.port()
        assert client.ask(by(user="42")).remaining == [999_999]
        store.stop_signal()
        request = client.request(by(user="42")).SerializeToString()
        call = client.channel.unary_unary(http2.SHOULD_RATE_LIMIT).future(request, timeout=PATIENCE_S)
        eventually(lambda: client.health() == "SERVING")
        terminate(node, port)
        assert not call.done()
        store.cont()
        assert client.answer(call.result()).remaining == [999_998]
        assert node.process.wait(PATIENCE_S) == 0
