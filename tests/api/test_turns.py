"""Who waits for whom."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from headgate.control.api import call
from headgate.control.api.routes import apply
from headgate.feed.codec import feed_token
from headgate.storage.sql import Database
from tests.api.plane import DEADLINE_S, FEED_KEY, Plane, make_whole_plane, served

# More than the threads that answer.
WRITERS = 60


def test_changes_that_wait_keep_nobody_from_looking_or_from_an_emergency(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    changes = plane.app.state.inside.services.changes
    replace = changes.replace

    def held_up(*arguments: object, **options: object) -> object:
        go_on.wait(DEADLINE_S)
        return replace(*arguments, **options)

    monkeypatch.setattr(changes, "replace", held_up)
    headers = {"Authorization": f"Bearer {plane.texts['editor']}"}
    with (
        served(plane.app) as address,
        httpx.Client(base_url=address, headers=headers, timeout=2 * DEADLINE_S) as client,
        ThreadPoolExecutor(WRITERS) as pool,
    ):

        def put(number: int) -> int:
            return client.put(f"/api/v1/rules/r{number}", json={"by": "user", "limit": "1/s"}).status_code

        waiting = [pool.submit(put, number) for number in range(WRITERS)]
        assert client.get("/api/v1/rules").json()["items"] == []
        assert client.get("/readyz").status_code == 200
        assert client.post("/api/v1/blocks", json={"ip": "203.0.113.7", "for": "1h"}).status_code == 201
        go_on.set()
        assert {one.result(2 * DEADLINE_S) for one in waiting} == {201}


@pytest.mark.parametrize(
    ("target", "content_type", "held"),
    [("/api/v1/blocks", "application/json", 8), ("/api/v1/apply", "application/x-ndjson", 2)],
)
def test_bodies_that_never_come_hold_nobody_up(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, target: str, content_type: str, held: int
) -> None:
    """A laptop that was closed in the middle of an upload says nothing, not even that it is gone."""
    monkeypatch.setattr(call, "SILENT_S", 0.3)
    headers = {"Authorization": f"Bearer {plane.texts['editor']}"}
    with (
        served(plane.app) as address,
        httpx.Client(base_url=address, headers=headers, timeout=2 * DEADLINE_S) as client,
    ):
        where = urlsplit(address)
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: {headers['Authorization']}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: 100000\r\n\r\n{{"
        )
        silent = [socket.create_connection((where.hostname or "", where.port or 0), DEADLINE_S) for _ in range(held)]
        for one in silent:
            one.sendall(head.encode())
        told = [one.recv(4096) for one in silent]
        assert {answer.split(b" ")[1] for answer in told} == {b"408"}
        for one in silent:
            one.close()
        rule = b'{"name": "a", "by": "user", "limit": "1/s"}\n'
        body = b'{"ip": "203.0.113.7"}' if target.endswith("blocks") else rule
        assert client.post(target, content=body, headers={"Content-Type": content_type}).status_code in (200, 201)


def test_copies_of_everything_leave_room_for_an_emergency(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than there are threads or connections to the database, by somebody who may only look."""
    go_on = threading.Event()
    lines = apply._lines

    def held_up(database: Database) -> Iterator[str]:
        with database.read():
            go_on.wait(DEADLINE_S)
        yield from lines(database)

    monkeypatch.setattr(apply, "_lines", held_up)
    viewer = {"Authorization": f"Bearer {plane.texts['viewer']}"}
    editor = {"Authorization": f"Bearer {plane.texts['editor']}"}
    with (
        served(plane.app) as address,
        httpx.Client(base_url=address, timeout=2 * DEADLINE_S, limits=httpx.Limits(max_connections=100)) as client,
        ThreadPoolExecutor(WRITERS) as pool,
    ):

        def export(_: int) -> int:
            return client.get("/api/v1/export", params={"format": "ndjson"}, headers=viewer).status_code

        exports = [pool.submit(export, number) for number in range(WRITERS)]
        block = {"ip": "203.0.113.7", "for": "1h"}
        assert [client.post("/api/v1/blocks", json=block, headers=editor).status_code for _ in range(5)] == [201] * 5
        go_on.set()
        assert {one.result(2 * DEADLINE_S) for one in exports} == {200}


def test_nodes_that_wait_for_a_snapshot_leave_room_for_an_emergency(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a new epoch all of them want it at once, and of a million rules it takes a while."""
    go_on = threading.Event()
    with make_whole_plane(sqlite, tmp_path) as plane:
        feed = plane.app.state.inside.services.feed
        open_snapshot = feed.open_snapshot
        monkeypatch.setattr(feed, "open_snapshot", lambda: go_on.wait(DEADLINE_S) and open_snapshot())
        node = {"Authorization": f"Bearer {feed_token(FEED_KEY)}"}
        editor = {"Authorization": f"Bearer {plane.texts['editor']}"}
        with (
            served(plane.app) as address,
            httpx.Client(base_url=address, timeout=2 * DEADLINE_S, limits=httpx.Limits(max_connections=100)) as client,
            ThreadPoolExecutor(WRITERS) as pool,
        ):
            asking = threading.Barrier(WRITERS + 1)

            def fetch(_: int) -> int:
                asking.wait(DEADLINE_S)
                return client.get("/feed/v1/snapshot", headers=node).status_code

            fetched = [pool.submit(fetch, number) for number in range(WRITERS)]
            asking.wait(DEADLINE_S)
            block = {"ip": "203.0.113.7", "for": "1h"}
            for _ in range(5):
                assert client.post("/api/v1/blocks", json=block, headers=editor).status_code == 201
                assert not any(one.done() for one in fetched)
            go_on.set()
            assert {one.result(2 * DEADLINE_S) for one in fetched} == {200}
