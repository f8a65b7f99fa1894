"""Upstreams that speak HTTP/2: what their streams and windows allow, and who waits for what."""

from __future__ import annotations

from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded, StreamReset

from tests.gateway import wire
from tests.gateway.conftest import Start
from tests.gateway.upstream_h2 import UpstreamH2, never_answer, never_finish
from tests.integration.http_node import eventually

STREAMS_MAX = 10


def answer(connection: H2Connection, event: Event) -> None:
    if isinstance(event, DataReceived) and event.stream_id is not None:
        connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
    if isinstance(event, StreamEnded) and event.stream_id is not None:
        connection.send_headers(event.stream_id, [(":status", "204")], end_stream=True)


def test_past_the_most_streams_of_a_connection_there_is_another(start: Start) -> None:
    with UpstreamH2(never_finish, STREAMS_MAX) as upstream:
        gate = start(upstream.url, "--threads", "1", "--upstream-timeout-s", "20")
        clients = [gate.wire() for _ in range(2 * STREAMS_MAX + 1)]
        for client in clients:
            client.send(wire.request("GET", "/"))
            assert client.head().status == 200
        assert upstream.connections == 3


def test_a_request_that_a_window_holds_up_is_called_off_with_its_client(start: Start) -> None:
    with UpstreamH2(never_answer) as upstream:
        gate = start(upstream.url, "--upstream-timeout-s", "0.5")
        assert gate.says(wire.request("POST", "/", body=bytes(400_000))).status == 504
        eventually(lambda: upstream.count(StreamReset) == 1)


def test_whoever_waits_to_be_told_to_send_is_told(start: Start) -> None:
    with UpstreamH2(answer) as upstream:
        client = start(upstream.url).wire()
        client.send(wire.request("POST", "/", "Expect: 100-continue", "Content-Length: 3"))
        assert client.head().status == 100
        client.send(b"abc")
        assert client.answer().status == 204


def test_a_head_as_large_as_others_may_have_passes(start: Start) -> None:
    with UpstreamH2(answer) as upstream:
        gate = start(upstream.url)
        assert gate.get("/", *(f"X-{number}: y" for number in range(99))).status == 204
        assert gate.get("/", "X: " + "y" * 32_500).status == 204
