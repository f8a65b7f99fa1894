"""What tests of the feed share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.storage.streams import Broker
from tests.feed.toy_control import KEY
from tests.servers.server import Server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that have no rules to wait for."""
    monkeypatch.setattr("headgate.upkeep.feed.follower.PATIENCE_S", 0.1)


@pytest.fixture
def quick_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are looked at more often than every second: the tests wait for nothing else."""
    monkeypatch.setattr("headgate.control.region.AUDIT_EVERY_S", 0.1)


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(shared_server: Server) -> Server:
    """One whose contents a test may do anything with."""
    shared_server.command("FLUSHALL")
    return shared_server


@pytest.fixture
def broker(server: Server) -> Iterator[Broker]:
    broker = Broker(server.url, key=KEY)
    yield broker
    broker.close()
