"""The real thing: a control plane, a broker and nodes, each a process that can be killed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.feed.following import SOON_S
from tests.servers.ports import HOST
from tests.servers.process import Process
from tests.servers.program import Control, Node
from tests.servers.server import Server
from tests.servers.waiting import wait_for

START_S = 60.0
METRIC = re.compile(r"^(headgate_feed_\w+) (\S+)$", re.MULTILINE)


class FollowingNode(Node):
    def wait_until(self, position: str) -> None:
        wait_for("the change", lambda: self.feed()["position"] == position, SOON_S, self.log)

    def feed(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.url}/readyz", timeout=10).json()["feed"]
        return found

    def metrics(self) -> dict[str, float]:
        return {name: float(value) for name, value in METRIC.findall(httpx.get(f"{self.url}/metrics", timeout=10).text)}


def change(control: Control, method: str, path: str, body: Any = None) -> httpx.Response:
    answer = control.call(method, path, body)
    assert answer.is_success, answer.text
    return answer


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    path = tmp_path / "feed.key"
    path.write_text("a1" * 32 + "\n")
    return str(path)


def test_nodes_follow_a_control_plane_that_is_killed_and_go_on_without_anything(
    server: Server, tmp_path: Path, key_file: str
) -> None:
    database = f"sqlite:///{tmp_path}/control.db"
    regions = f"eu={server.url}"
    with Control(tmp_path / "control", database, "--feed-key-file", key_file, "--regions", regions) as control:
        change(control, "POST", "/rules", {"name": "one", "by": "user", "limit": "5/minute"})
        kept = str(tmp_path / "kept.hgs")
        key = ("--feed-key-file", key_file)
        with (
            FollowingNode(tmp_path / "n1", server.url, *key, "--feed-snapshot", kept) as first,
            FollowingNode(tmp_path / "n2", control.url, *key, "--feed-snapshot", "") as second,
        ):
            nodes = (first, second)
            assert [node.check(user="7")["rule"] for node in nodes] == ["one", "one"]

            # An emergency block is there at once, and the fleet says so.
            answer = change(control, "POST", "/blocks", {"user": "7", "for": "1h", "why": "abuse"})
            version = answer.headers["X-Headgate-Version"]
            fleet = change(control, "GET", f"/versions/{version}/fleet?wait=20").json()
            assert (fleet["done"], fleet["live"]) == (True, 2)
            for node in nodes:
                assert not node.check(user="7")["allowed"]
                assert node.feed()["position"] == version
                assert node.metrics()["headgate_feed_version"] == float(version.partition(".")[2])
                assert node.metrics()["headgate_feed_lag_seconds"] < SOON_S

            # Killed while nodes wait: they go on, and catch up when it is back.
            control.process.kill()
            wait_for("the loss", lambda: second.feed()["error"], SOON_S, second.log)
            assert not second.check(user="7")["allowed"]
            control.start()
            version = change(control, "DELETE", "/rules/one").headers["X-Headgate-Version"]
            for node in nodes:
                node.wait_until(version)
                assert node.feed()["error"] is None
                assert node.check(user="8")["rule"] is None

            # Everything is away, and the node is started anew: it enforces what it saw last.
            first.process.kill()
            control.process.kill()
            server.kill9()
            first.start()
            assert not first.check(user="7")["allowed"]
            assert first.feed()["position"] == version
            assert "Connection refused" in first.feed()["error"]
            assert first.metrics()["headgate_feed_errors_total"] >= 1
            log = first.log()
            assert "a1a1" not in log
            assert "Traceback" not in log


def test_a_node_without_rules_from_anywhere_does_not_start(tmp_path: Path, key_file: str) -> None:
    flags = ["--rules", "redis://127.0.0.1:1,http://127.0.0.1:2", "--feed-key-file", key_file]
    process = Process(
        [sys.executable, "-m", "headgate", "node", "--listen", f"{HOST}:0", *flags, "--feed-snapshot", ""],
        tmp_path,
        {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)},
    )
    wait_for("its end", lambda: process.exit_code is not None, START_S)
    words = process.log_tail()
    process.kill()
    assert process.exit_code != 0
    assert "there are no rules" in words
    assert "redis://127.0.0.1:1: " in words
    assert "http://127.0.0.1:2: cannot be asked" in words
    assert "Traceback" not in words
