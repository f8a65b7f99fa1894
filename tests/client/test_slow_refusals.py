"""A refusal's body is read for the sake of its connection, and for no longer than that is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import requests

from headgate.client.requests import RetryAdapter
from tests.client.libraries import Library
from tests.client.limited_app import PATIENCE_S
from tests.client.slow_server import BYTES, SlowServer


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    with SlowServer() as server:
        yield server


def test_requests_does_not_wait_for_a_refusal_that_never_ends(slow: SlowServer) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", RetryAdapter())
        assert session.get(slow.url, timeout=PATIENCE_S).text == "here"
    assert slow.sent < BYTES


def test_the_transport_does_not_wait_for_a_refusal_that_never_ends(slow: SlowServer, library: Library) -> None:
    with library.client() as client:
        assert client.get(slow.url).text == "here"
    assert slow.sent < BYTES


def test_the_async_transport_does_not_wait_for_a_refusal_that_never_ends(slow: SlowServer, library: Library) -> None:
    async def main() -> str:
        _, client = library.async_client()
        async with client:
            return str((await client.get(slow.url)).text)

    assert asyncio.run(main()) == "here"
    assert slow.sent < BYTES
