"""One node for a module's attacks. After each of them it answers as before and has given back what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.grpc.client import Client, by
from tests.grpc.node_process import NodeProcess
from tests.integration.http_node import eventually

# A node that has nothing to do takes about a third of it.
MEMORY_MB_MAX = 150.0
Start = Callable[..., NodeProcess]


class Survivor:
    """A node under attack, and an honest client that was there before."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.client: Client = node.client()
        assert self.client.ask(by(user="honest")).code == "OK"
        self.open_files = node.open_files()

    @property
    def port(self) -> int:
        return self.node.port()

    def assert_well(self, memory_mb_max: float = MEMORY_MB_MAX) -> None:
        """It is the same process, answers old and new clients, holds no dead connection and not much memory."""
        assert self.node.process.poll() is None, self.node.log()
        assert self.client.ask(by(user="honest")).code == "OK"
        with Client(self.node.address("grpc")).share_messages(self.client) as newcomer:
            assert newcomer.ask(by(user="honest")).code == "OK"
        assert self.node.admin("/healthz").status_code == 200
        eventually(lambda: self.node.open_files() <= self.open_files)
        assert self.node.memory_mb() < memory_mb_max
        assert "panicked" not in self.node.log()


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivor]:
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield Survivor(node)


@pytest.fixture
def survivor(shared_node: Survivor) -> Iterator[Survivor]:
    yield shared_node
    shared_node.assert_well()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Nodes with settings of the test's own."""
    nodes: list[NodeProcess] = []

    def starter(*flags: str, **options: object) -> NodeProcess:
        folder = tmp_path / f"node{len(nodes)}"
        folder.mkdir()
        nodes.append(NodeProcess(folder, *flags, **options))  # type: ignore[arg-type]
        return nodes[-1]

    yield starter
    for node in nodes:
        node.close()
