"""The scripts on every kind of server there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests.scripts.calls import Scripts
from tests.servers.binaries import Flavour, flavours
from tests.servers.server import Server


@pytest.fixture(scope="module", autouse=True)
def same_examples() -> Iterator[None]:
    """Hypothesis draws from the constants of loaded modules; examples must not depend on what ran before."""
    none = Constants()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", lambda: none)
        providers.CONSTANTS_CACHE.cache.clear()
        yield
    providers.CONSTANTS_CACHE.cache.clear()


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
