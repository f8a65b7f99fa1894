"""Nodes over HTTP, and what operators see of them."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.feed import Kind
from headgate.feed.codec import decode_delta, feed_token, read_snapshot
from headgate.storage.sql import Database
from tests.api.plane import DEADLINE_S, FEED_KEY, Plane, make_whole_plane, problem, served

RULE = {"by": "user", "limit": "1/s"}
NODE = {"Authorization": f"Bearer {feed_token(FEED_KEY)}"}
WAITING = 50


@pytest.fixture
def whole(database: Database, tmp_path: Path) -> Iterator[Plane]:
    with make_whole_plane(database, tmp_path) as made:
        yield made


@pytest.fixture
def node(whole: Plane) -> Iterator[httpx.Client]:
    """A node's connection to a real server."""
    with served(whole.app) as address, httpx.Client(base_url=address, headers=NODE, timeout=DEADLINE_S) as client:
        yield client


def heartbeat(position: str, name: str = "n1", **more: Any) -> dict[str, Any]:
    return {"id": name, "region": "eu", "position": position, "at_us": time.time_ns() // 1000, "lag_ms": 3, **more}


def test_a_node_takes_the_snapshot_and_then_deltas(whole: Plane, node: httpx.Client) -> None:
    admin = whole.client()
    admin.put("/api/v1/rules/a", json=RULE)
    taken = node.get("/feed/v1/snapshot")
    assert taken.status_code == 200
    assert int(taken.headers["content-length"]) == len(taken.content)
    assert [(entry.kind, entry.id) for entry in read_snapshot(io.BytesIO(taken.content), FEED_KEY)] == [
        (Kind.RULE, "a")
    ]
    since = admin.get("/api/v1/me").json()["head"]
    nothing = node.get("/feed/v1/deltas", params={"since": since, "wait": 0})
    assert (nothing.status_code, nothing.content) == (204, b"")

    made = admin.put("/api/v1/rules/b", json=RULE).headers["x-headgate-version"]
    delta = decode_delta(FEED_KEY, node.get("/feed/v1/deltas", params={"since": since, "wait": 10}).content)
    assert (str(delta.to), [entry.id for entry in delta.entries]) == (made, ["b"])
    problem(node.get("/feed/v1/deltas", params={"since": "1.1", "wait": 0}), 410)
    for wrong in ("", "1", "x.y", "1.2.3", "-1.2"):
        problem(node.get("/feed/v1/deltas", params={"since": wrong}), 422)


def test_many_nodes_wait_at_once_and_all_are_told(whole: Plane, node: httpx.Client) -> None:
    """More than there are threads to answer with: waiting must not take one each, nor keep operators out."""
    admin = whole.client()
    since = admin.get("/api/v1/me").json()["head"]
    told: list[int] = []

    def wait() -> None:
        answer = node.get("/feed/v1/deltas", params={"since": since, "wait": 20}, timeout=2 * DEADLINE_S)
        told.append(answer.status_code)

    threads = [threading.Thread(target=wait) for _ in range(WAITING)]
    for thread in threads:
        thread.start()
    assert node.get("/readyz").status_code == 200
    admin.put("/api/v1/rules/a", json=RULE)
    for thread in threads:
        thread.join(DEADLINE_S * 2)
    assert told == [200] * WAITING


def test_heartbeats_show_who_is_behind_and_a_change_can_be_awaited(whole: Plane, node: httpx.Client) -> None:
    admin = whole.client("viewer")
    before = admin.get("/api/v1/me").json()["head"]
    assert node.post("/feed/v1/heartbeat", json=heartbeat(before)).status_code == 204
    after = whole.client().put("/api/v1/rules/a", json=RULE).headers["x-headgate-version"]

    fleet = admin.get("/api/v1/fleet").json()
    assert fleet["head"] == after
    assert [(one["id"], one["alive"], one["behind"], one["position"]) for one in fleet["nodes"]] == [
        ("n1", True, 1, before)
    ]
    late = admin.get("/api/v1/versions/1/fleet").json()
    assert (late["done"], late["live"], late["behind"][0]["id"]) == (False, 1, "n1")
    told = admin.get("/metrics").text
    assert 'headgate_control_nodes{state="alive"} 1\n' in told
    assert 'headgate_control_nodes{state="behind"} 1\n' in told
    assert "headgate_control_version 1\n" in told

    beat = threading.Timer(0.2, lambda: node.post("/feed/v1/heartbeat", json=heartbeat(after)))
    beat.start()
    done = admin.get(f"/api/v1/versions/{after}/fleet", params={"wait": 15}).json()
    beat.join()
    assert (done["done"], done["behind"], done["version"]) == (True, [], after)
    problem(admin.get("/api/v1/versions/99/fleet"), 422)


def test_head_is_get_without_a_body_under_a_real_server(whole: Plane, node: httpx.Client) -> None:
    admin = {"Authorization": f"Bearer {whole.texts['admin']}"}
    for path, status in (("/healthz", 200), ("/api/v1/rules", 200), ("/api/v1/rules/none", 404), ("/nothing", 404)):
        head, get = node.head(path, headers=admin), node.get(path, headers=admin)
        assert (head.status_code, head.content, get.status_code) == (status, b"", status)
        assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize(
    ("body", "status"), [(b"[]", 422), (b"{", 400), (b'{"id":1}', 204), (b"x" * 300_000, 413), (b'{"id":"a"}', 204)]
)
def test_a_heartbeat_that_makes_no_sense_changes_nothing(whole: Plane, body: bytes, status: int) -> None:
    client = whole.client(None, **NODE)
    assert client.post("/feed/v1/heartbeat", content=body).status_code == status
    assert whole.client().get("/api/v1/fleet").json()["nodes"] == []


def test_the_backup_is_one_file(whole: Plane) -> None:
    admin = whole.client()
    admin.put("/api/v1/rules/a", json=RULE)
    taken = admin.get("/api/v1/backup")
    assert taken.status_code == 200
    assert taken.headers["content-type"] == "application/gzip"
    assert taken.headers["content-disposition"].startswith("attachment")
    assert taken.content[:2] == b"\x1f\x8b"
    assert whole.recorded()[0]["path"] == "/api/v1/backup"
