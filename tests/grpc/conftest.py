"""Nodes on a clock of the test's own, asked over gRPC, ended with the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate._core import Engine, FakeClock, Server
from tests.grpc.client import Client, first_address
from tests.integration.http_node import START_S, Node

Rule = dict[str, Any]
Asking = Callable[..., Client]


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    started: list[Node] = []
    yield started
    for node in started:
        node.end()


@pytest.fixture
def asking(nodes: list[Node]) -> Iterator[Asking]:
    """A client of a node that has these rules and no others."""
    clients: list[Client] = []

    def starter(*rules: Rule, engine: dict[str, Any] | None = None, **options: Any) -> Client:
        clock = FakeClock(START_S)
        made = Engine(clock=clock, **(engine or {}))
        made.load_rules(json.dumps({"rules": rules}))
        server = Server(made, **({"listen": "127.0.0.1:0"} | options))
        nodes.append(Node(made, clock, server))
        server.start()
        clients.append(Client(first_address(server)))
        return clients[-1]

    yield starter
    for client in clients:
        client.close()


@pytest.fixture(params=["tcp", "unix"])
def client(request: pytest.FixtureRequest, asking: Asking, tmp_path: Path) -> Client:
    """Of a node behind each kind of door."""
    door = {"listen": None, "uds": str(tmp_path / "hg.sock")} if request.param == "unix" else {}
    return asking({"name": "per-user", "by": "user", "limit": "5/minute"}, **door)
