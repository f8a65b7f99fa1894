"""Every run tries the same examples, so that a failure seen once is seen by everybody.

To search further, with other examples each time: `HEADGATE_EFFORT=30 pytest tests/properties`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from headgate._core import Server
from tests.engine import Clocked
from tests.grpc.client import Client, first_address
from tests.properties.strategies import EFFORT, START_US, examples

settings.register_profile(
    "headgate",
    parent=examples(60),
    derandomize=EFFORT == 1,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("headgate")


@pytest.fixture(scope="module")
def learned() -> Iterator[Client]:
    """Knows the messages, so that not every example has to ask for them."""
    server = Server(Clocked(START_US).engine, listen="127.0.0.1:0", threads=1)
    server.start()
    with Client(first_address(server)) as client:
        assert client.messages
        yield client
    server.drain(0.0)
