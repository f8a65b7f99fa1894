from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.libraries import LIBRARIES, Library
from tests.client.limited_app import Served


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    return LIBRARIES[request.param]
