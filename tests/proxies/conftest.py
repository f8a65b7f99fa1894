"""One stack for each example, for all tests that leave it standing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proxies.client import Client
from tests.proxies.fronts import FRONTS
from tests.proxies.stack import Stack
from tests.proxies.tokens import Known, made_known


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    return made_known(tmp_path_factory.mktemp("known"))


@pytest.fixture(scope="session", params=FRONTS, ids=str)
def stack(request: pytest.FixtureRequest, known: Known) -> Iterator[Stack]:
    with Stack(request.param, node_flags=known.flags) as started:
        yield started


@pytest.fixture
def client(stack: Stack) -> Client:
    """Nobody has come from its address yet."""
    return stack.client()
