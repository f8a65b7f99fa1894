"""Which calls a server is sent, as it sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance.stores import NODES_KEY
from tests.servers.server import Server

END = "that was all"


@contextmanager
def script_calls(server: Server) -> Iterator[list[str]]:
    """Fills the list, at the end, with the scripts called meanwhile; not with heartbeats, which come when they will."""
    calls: list[str] = []
    client: Any = server.client()
    with client.monitor() as monitor:
        yield calls
        server.command("ECHO", END)
        seen = iter(lambda: str(monitor.next_command()["command"]), f"ECHO {END}")
        calls += [call for call in seen if call.startswith("EVALSHA ") and NODES_KEY.decode() not in call]
