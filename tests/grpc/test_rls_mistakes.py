"""What is no call, and what each kind is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from tests.grpc import wire
from tests.grpc.client import HEALTH, RATE_LIMIT, Client, Descriptor, by
from tests.grpc.conftest import Asking
from tests.integration.http_node import PATIENCE_S

SHOULD_RATE_LIMIT = f"{RATE_LIMIT}/ShouldRateLimit"
MESSAGE_BYTES_MAX = 1024 * 1024


def error(what: Callable[[], Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as raised:
        what()
    code: grpc.StatusCode = raised.value.code()
    return code


def test_a_call_without_descriptors_is_a_mistake(client: Client) -> None:
    assert error(lambda: client.ask(domain="edge")) == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "message",
    [b"\xff", b"\x12\x05abc", b"\x13", b"\x12\x02\x0a\x05", b"not protobuf", b"\x00" * 64, b"\x12\x04\x1a\x02\x08\x80"],
)
def test_what_is_not_protobuf_is_a_mistake(client: Client, message: bytes) -> None:
    assert error(lambda: client.raw(SHOULD_RATE_LIMIT, message)) == grpc.StatusCode.INVALID_ARGUMENT


def test_unknown_fields_are_passed_over(client: Client) -> None:
    request = client.request(by(user="42")).SerializeToString() + wire.field(99, "new") + wire.field(100, 7)
    assert client.answer(client.raw(SHOULD_RATE_LIMIT, request)).remaining == [4]


def test_a_message_of_a_mebibyte_is_read_and_one_byte_more_is_too_much(client: Client) -> None:
    request = client.request(by(user="42")).SerializeToString()
    padding = MESSAGE_BYTES_MAX - len(request) - len(wire.varint(99 << 3 | 2)) - 3
    largest = request + wire.field(99, b"x" * padding)
    assert len(largest) == MESSAGE_BYTES_MAX
    assert client.answer(client.raw(SHOULD_RATE_LIMIT, largest)).remaining == [4]
    too_large = request + wire.field(99, b"x" * (padding + 1))
    assert error(lambda: client.raw(SHOULD_RATE_LIMIT, too_large)) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert client.ask(by(user="42", hits=0)).remaining == [4]


def test_a_compressed_message_is_not_read(client: Client) -> None:
    def ask() -> None:
        client.ask(by(user="x" * 1_000), compression=grpc.Compression.Gzip)

    assert error(ask) == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "method", [f"{RATE_LIMIT}/Nothing", "envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "x/y", HEALTH]
)
def test_an_unknown_method_is_not_implemented(client: Client, method: str) -> None:
    assert error(lambda: client.raw(method, b"")) == grpc.StatusCode.UNIMPLEMENTED


def test_negative_hits_are_a_mistake_and_not_a_spend(client: Client) -> None:
    descriptor = wire.field(1, wire.entry("user", "42")) + wire.field(4, 1)
    request = wire.field(1, "edge") + wire.field(2, descriptor)
    assert error(lambda: client.raw(SHOULD_RATE_LIMIT, request)) == grpc.StatusCode.INVALID_ARGUMENT
    assert client.ask(by(user="42", hits=0)).remaining == [5]


def test_a_limit_without_a_unit_is_a_mistake(client: Client) -> None:
    assert error(lambda: client.ask(by(user="42", limit=(5, "UNKNOWN")))) == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "descriptors", [[by(user=str(n)) for n in range(65)], [Descriptor([(f"k{n}", "v") for n in range(33)])]]
)
def test_more_descriptors_or_entries_than_any_proxy_sends_are_a_mistake(
    client: Client, descriptors: list[Descriptor]
) -> None:
    assert error(lambda: client.ask(*descriptors)) == grpc.StatusCode.INVALID_ARGUMENT


def test_more_limits_than_a_call_may_meet_are_a_mistake(asking: Asking) -> None:
    client = asking({"name": "many", "by": "user", "limit": [f"{1_000 - nth}/{nth + 1}h" for nth in range(16)]})
    assert client.ask(*(by(user=str(n)) for n in range(12))).code == "OK"
    too_many = [by(user=str(n)) for n in range(13)]
    assert error(lambda: client.ask(*too_many)) == grpc.StatusCode.INVALID_ARGUMENT


def test_a_call_that_ends_without_a_message_is_a_mistake(client: Client) -> None:
    call = client.channel.stream_unary(f"/{SHOULD_RATE_LIMIT}")
    assert error(lambda: call(iter(()), timeout=PATIENCE_S)) == grpc.StatusCode.INVALID_ARGUMENT


def test_a_mistake_does_not_end_the_connection(client: Client) -> None:
    for _ in range(20):
        error(lambda: client.raw(SHOULD_RATE_LIMIT, b"\xff"))
        assert client.ask(by(user="42", hits=0)).remaining == [5]
