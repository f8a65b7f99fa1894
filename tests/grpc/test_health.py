"""gRPC's own health check, as proxies and Kubernetes ask it."""

from __future__ import annotations

import grpc
import pytest

from tests.grpc import wire
from tests.grpc.client import HEALTH, RATE_LIMIT, Client
from tests.integration.http_node import PATIENCE_S


@pytest.mark.parametrize("service", ["", RATE_LIMIT])
def test_the_server_and_its_service_are_serving(client: Client, service: str) -> None:
    assert client.health(service) == "SERVING"


def test_an_unknown_service_is_not_found(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        client.health("envoy.service.ratelimit.v2.RateLimitService")
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_watch_says_how_it_is_and_stays(client: Client) -> None:
    call = client.channel.unary_stream(f"/{HEALTH}/Watch")(b"", timeout=PATIENCE_S)
    assert client.health_status(next(call)) == "SERVING"
    assert call.is_active()
    call.cancel()
    assert client.health() == "SERVING"


def test_a_watch_of_an_unknown_service_says_so_and_stays(client: Client) -> None:
    call = client.channel.unary_stream(f"/{HEALTH}/Watch")(wire.field(1, "nobody"), timeout=PATIENCE_S)
    assert client.health_status(next(call)) == "SERVICE_UNKNOWN"
    assert call.is_active()
    call.cancel()
