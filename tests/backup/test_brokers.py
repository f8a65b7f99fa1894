"""A broker with its data on disk, as the page configures it."""

from __future__ import annotations

from pathlib import Path

from tests.backup.page import options
from tests.servers.program import Control, Node
from tests.servers.server import Server


def configured() -> Server:
    return Server(args=[word for name, value in options("Brokers").items() for word in (f"--{name}", value)])


def test_a_killed_broker_still_starts_nodes_while_the_control_plane_is_away(sqlite_url: str, tmp_path: Path) -> None:
    with configured() as broker:
        with (
            Control(tmp_path / "control", sqlite_url, "--regions", f"eu={broker.url}") as control,
            Node(tmp_path / "old", broker.url) as node,
        ):
            control.put_rule("login", "5/minute")
            node.comes_to(login=5)
            # After the snapshot that the node began with: what comes as a delta is kept as well.
            control.put_rule("login", "6/minute")
            node.comes_to(login=6)
        entries = broker.command("XLEN", "hgfeed:deltas")
        broker.kill9()
        broker.restart()
        assert broker.command("XLEN", "hgfeed:deltas") == entries > 0
        with Node(tmp_path / "new", broker.url) as node:
            node.comes_to(login=6)
