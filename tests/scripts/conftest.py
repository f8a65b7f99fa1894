"""The scripts on every kind of server there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scripts.calls import Scripts
from tests.servers.binaries import Flavour, flavours
from tests.servers.server import Server


@pytest.fixture(scope="module", params=flavours(), ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    flavour: Flavour = request.param
    with Server(flavour.require()) as server:
        yield server


@pytest.fixture
def scripts(server: Server) -> Scripts:
    scripts = Scripts(server.client())
    scripts.client.flushdb()
    return scripts
