"""The wrong language at the right door."""

from __future__ import annotations

import socket

import httpx
import pytest
from hyperframe.frame import DataFrame

from tests.grpc import wire
from tests.grpc.client import Client, by
from tests.hostile import http2
from tests.hostile.conftest import Survivor
from tests.hostile.http2 import Raw
from tests.integration.http_node import PATIENCE_S

REQUEST = wire.rate_limit_request("edge", [("user", "polyglot")])
# What a TLS client says first, as far as a plain server needs to hear it.
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x5a" * 507


def test_http_1_is_answered_at_the_grpc_door(survivor: Survivor) -> None:
    url = f"http://{survivor.node.address('grpc')}/v1/check"
    answer = httpx.post(url, json={"user": "polyglot"}, timeout=PATIENCE_S, trust_env=False)
    assert answer.json()["allowed"]


@pytest.mark.parametrize("door", ["http", "uds"])
def test_grpc_is_answered_at_every_door(survivor: Survivor, door: str) -> None:
    with Client(survivor.node.address(door)) as client:
        assert client.ask(by(user="polyglot")).code == "OK"
        assert client.health() == "SERVING"


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_tls_at_a_plain_door_is_ended(survivor: Survivor, door: str) -> None:
    with socket.create_connection(("127.0.0.1", survivor.node.port(door)), PATIENCE_S) as connected:
        connected.sendall(CLIENT_HELLO)
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(4_096):
            pass


def test_an_http_2_request_that_is_not_grpc_is_told_so(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        raw.send(http2.headers(1, http2.head(**{"content-type": "text/html"}), ["END_HEADERS", "END_STREAM"]))
        assert raw.answer(1).fields[":status"] == "415"


def test_an_upgrade_to_http_2_is_not_taken_and_the_request_is_answered(survivor: Survivor) -> None:
    head = "GET /v1/nothing HTTP/1.1\r\nhost: node\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"
    with socket.create_connection(("127.0.0.1", survivor.port), PATIENCE_S) as connected:
        connected.sendall((head + "http2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n").encode())
        assert connected.recv(4_096).startswith(b"HTTP/1.1 404")


def test_the_preface_after_an_http_1_request_is_no_way_around_its_rules(survivor: Survivor) -> None:
    with socket.create_connection(("127.0.0.1", survivor.port), PATIENCE_S) as connected:
        connected.sendall(b"GET /v1/nothing HTTP/1.1\r\nhost: node\r\n\r\n" + http2.PREFACE + http2.call(1, REQUEST))
        connected.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := connected.recv(4_096):
            got += chunk
        assert got.startswith(b"HTTP/1.1 404")
        assert http2.settings() not in got


def test_data_after_the_end_of_a_call_is_no_second_call(survivor: Survivor) -> None:
    with Raw.to(survivor.port) as raw:
        raw.send(http2.call(1, REQUEST) + http2.data(1, http2.message(REQUEST), ["END_STREAM"]))
        raw.socket.shutdown(socket.SHUT_WR)
        assert len([frame for frame in raw.frames() if isinstance(frame, DataFrame)]) <= 1
