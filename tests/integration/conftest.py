"""Servers for the tests of the HTTP doors, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.http_node import Node

Starter = Callable[..., Node]


@pytest.fixture
def bind() -> Iterator[Starter]:
    nodes: list[Node] = []

    def starter(**options: Any) -> Node:
        nodes.append(Node.bound(**({"listen": "127.0.0.1:0"} | options)))
        return nodes[-1]

    yield starter
    for node in nodes:
        node.end()


@pytest.fixture
def run(bind: Starter) -> Starter:
    def starter(**options: Any) -> Node:
        node = bind(**options)
        node.server.start()
        return node

    return starter


@pytest.fixture(params=["tcp", "unix"])
def node(request: pytest.FixtureRequest, tmp_path: Path, run: Starter) -> Node:
    """A node behind each kind of door."""
    if request.param == "tcp":
        return run()
    return run(listen=None, uds=str(tmp_path / "hg.sock"))
