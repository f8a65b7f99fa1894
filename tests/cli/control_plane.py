"""A control plane on a free port, within the process of the tests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from headgate.control.api import Services, make_app
from headgate.control.changes import Changes
from headgate.control.tokens import first_token
from headgate.feed import Position
from headgate.storage.sql import Database

START_S_MAX = 60.0
STEP_S = 0.005


@dataclass
class Nodes:
    """Nodes that are wherever the test says they are."""

    live: int = 2
    behind: list[dict[str, Any]] = field(default_factory=list)
    waited: list[Position] = field(default_factory=list)
    beats: list[Mapping[str, Any]] = field(default_factory=list)
    error: str | None = None

    def status(self) -> Mapping[str, Any]:
        nodes = [
            {
                "id": f"n{nth}",
                "region": "eu",
                "position": "5.3",
                "behind": 0,
                "lag_ms": 3.5,
                "seen": "now",
                "alive": True,
            }
            for nth in range(self.live - len(self.behind))
        ]
        nodes += [{**node, "alive": True, "behind": 1} for node in self.behind]
        return {"head": "5.3", "nodes": nodes, "regions": [{"name": "eu", "published": "5.3", "error": self.error}]}

    def wait(self, position: Position, timeout: float) -> Mapping[str, Any]:
        self.waited.append(position)
        assert timeout >= 0
        return {"version": str(position), "live": self.live, "behind": self.behind, "done": not self.behind}

    def beat(self, heartbeat: Mapping[str, Any]) -> None:
        self.beats.append(heartbeat)


@dataclass(frozen=True)
class ControlPlane:
    url: str
    token: str
    nodes: Nodes
    database_path: str

    @property
    def environment(self) -> dict[str, str]:
        return {"HEADGATE_CONTROL_URL": self.url, "HEADGATE_TOKEN": self.token}


@contextmanager
def control_plane(database_url: str, token: str | None = None) -> Iterator[ControlPlane]:
    """`token` is one that the database knows already."""
    database = Database(database_url)
    changes = Changes(database, key_secret=b"k" * 32)
    token = token or first_token(database)
    assert token is not None
    nodes = Nodes()
    database_path = database_url.removeprefix("sqlite:///")
    app = make_app(Services(database, changes, fleet=nodes, limits=None))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + START_S_MAX
        while not server.started and time.monotonic() < deadline:
            time.sleep(STEP_S)
        try:
            yield ControlPlane(f"http://127.0.0.1:{listening.getsockname()[1]}", token, nodes, database_path)
        finally:
            server.should_exit = True
            thread.join(START_S_MAX)
            database.close()
