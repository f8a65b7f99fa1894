"""gRPC through the gateway: HTTP/2 from end to end, with an upstream of grpcio's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any, TypeAlias

import grpc
import pytest

from tests.gateway.app import AppServer
from tests.gateway.gate import RULES, Gate
from tests.integration.http_node import PATIENCE_S
from tests.servers.ports import HOST, free_port

FEW = {"name": "calls", "match": {"endpoint": "/shop.Shop/Few"}, "by": "ip", "limit": "2/hour"}
SIZE = 2_000_000
Calling: TypeAlias = "grpc.UnaryUnaryMultiCallable[bytes, bytes]"
Talking: TypeAlias = "grpc.StreamStreamMultiCallable[bytes, bytes]"


def echo(said: bytes, context: grpc.ServicerContext) -> bytes:
    context.set_trailing_metadata((("said", str(len(said))),))
    return said


def fail(said: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
    raise AssertionError


def talk(said: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    for word in said:
        yield word.upper()


class Shop(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> Any:
        methods: dict[str, Callable[[], Any]] = {
            "/shop.Shop/Echo": lambda: grpc.unary_unary_rpc_method_handler(echo),
            "/shop.Shop/Few": lambda: grpc.unary_unary_rpc_method_handler(echo),
            "/shop.Shop/Fail": lambda: grpc.unary_unary_rpc_method_handler(fail),
            "/shop.Shop/Talk": lambda: grpc.stream_stream_rpc_method_handler(talk),
        }
        return methods[details.method]()


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    port = free_port()
    server = grpc.server(ThreadPoolExecutor(8), handlers=[Shop()])
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    with (
        Gate(tmp_path_factory.mktemp("gate"), f"h2c://{HOST}:{port}", rules=[*RULES, FEW]) as gate,
        grpc.insecure_channel(gate.address("http")) as opened,
    ):
        yield opened
    server.stop(None).wait(PATIENCE_S)


def unary(channel: grpc.Channel, method: str) -> Calling:
    return channel.unary_unary(f"/shop.Shop/{method}")


@pytest.mark.parametrize("size", [0, 1, SIZE])
def test_a_call_is_answered_with_its_trailers(channel: grpc.Channel, size: int) -> None:
    answer, told = unary(channel, "Echo").with_call(b"x" * size, timeout=PATIENCE_S)
    assert answer == b"x" * size
    assert dict(told.trailing_metadata())["said"] == str(size)
    assert "x-ratelimit-limit" in dict(told.initial_metadata())


def test_a_call_that_fails_says_why(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        unary(channel, "Fail")(b"", timeout=PATIENCE_S)
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.NOT_FOUND, "no such thing")


def test_both_sides_may_talk_at_once(channel: grpc.Channel) -> None:
    """Each word is answered before the next is said."""
    words: Queue[bytes | None] = Queue()
    talking: Talking = channel.stream_stream("/shop.Shop/Talk")
    answers = talking(iter(words.get, None), timeout=PATIENCE_S)
    for number in range(20):
        words.put(b"word %d" % number)
        assert next(answers) == b"WORD %d" % number
    words.put(None)
    assert list(answers) == []


def test_a_call_past_the_limit_is_refused(channel: grpc.Channel) -> None:
    call = unary(channel, "Few")
    assert [call(b"x", timeout=PATIENCE_S) for _ in range(2)] == [b"x", b"x"]
    with pytest.raises(grpc.RpcError) as refused:
        call(b"x", timeout=PATIENCE_S)
    # What grpcio makes of a 429.
    assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_clients_of_http_1_reach_an_upstream_that_speaks_http_2(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        AppServer(tmp_path_factory.mktemp("app"), http2=True) as app,
        Gate(tmp_path_factory.mktemp("gate"), app.url) as gate,
        gate.client() as client,
    ):
        seen = client.post("/x", content=b"a" * 300_000, headers={"X-Own": "kept"})
        assert seen.http_version == "HTTP/1.1"
        told = seen.json()
        assert (told["version"], told["size"], told["method"]) == ("2", 300_000, "POST")
        assert ["x-own", "kept"] in told["fields"]
        assert len(client.get("/app/bytes?size=1000000").content) == 1_000_000
