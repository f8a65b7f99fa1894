"""Whole rule sets through a real server: streamed, all or nothing, and never faster than they are taken."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from headgate.control.api import call
from headgate.control.api.routes.apply import LINE_BYTES_MAX
from tests.api.plane import DEADLINE_S, Plane, problem, served

NDJSON = {"Content-Type": "application/x-ndjson"}
LINES = 3_000
# What buffers of sockets and servers may hold between them, generously.
BUFFERED_BYTES_MAX = 48 * 1024 * 1024


def line(number: int) -> bytes:
    rule = {"name": f"org-{number:06}", "match": {"org": str(number)}, "by": "org", "limit": "5/s"}
    return json.dumps(rule).encode() + b"\n"


def lines(count: int) -> Iterator[bytes]:
    for start in range(0, count, 500):
        yield b"".join(line(number) for number in range(start, min(start + 500, count)))


@pytest.fixture
def address(any_plane: Plane) -> Iterator[str]:
    with served(any_plane.app) as found:
        yield found


def bearer(plane: Plane) -> dict[str, str]:
    return {"Authorization": f"Bearer {plane.texts['editor']}"}


def test_lines_are_taken_as_one_version(any_plane: Plane, address: str) -> None:
    with httpx.Client(base_url=address, headers=bearer(any_plane), timeout=DEADLINE_S) as client:
        first = client.post("/api/v1/apply", content=lines(LINES), headers=NDJSON)
        assert first.status_code == 200, first.text
        told = first.json()
        assert (told["created"], len(told["changes"])) == (LINES, 1_000)
        assert first.headers["x-headgate-version"] == told["version"]
        fewer = client.post("/api/v1/apply", content=lines(LINES - 10), headers=NDJSON, params={"prune": "true"})
        assert (fewer.json()["deleted"], fewer.json()["unchanged"]) == (10, LINES - 10)
        exported = client.get("/api/v1/export", params={"format": "ndjson"})
        assert len(exported.content.splitlines()) == LINES - 10
        assert client.get("/api/v1/me").json()["head"].endswith(".2")


def test_a_plan_is_applied_as_it_was_or_not_at_all(any_plane: Plane, address: str) -> None:
    with httpx.Client(base_url=address, headers=bearer(any_plane), timeout=DEADLINE_S) as client:
        dry = {"dry_run": "true"}
        at = client.post("/api/v1/apply", content=lines(3), headers=NDJSON, params=dry).json()["at"]
        client.put("/api/v1/tiers/new", json={"name": "new"})
        late = client.post("/api/v1/apply", content=lines(3), headers=NDJSON, params={"at": at})
        assert "somebody else" in problem(late, 412)["detail"]
        at = client.post("/api/v1/apply", content=lines(3), headers=NDJSON, params=dry).json()["at"]
        assert client.post("/api/v1/apply", content=lines(3), headers=NDJSON, params={"at": at}).json()["created"] == 3
        assert client.post("/api/v1/apply", content=lines(3), headers=NDJSON, params={"at": "soon"}).status_code == 422


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (line(1) + b'{"name": "x", "by": "user", "limit": "often"}\n' + line(2), 422, "2"),
        (line(1) + b"not json\n", 422, "2"),
        (line(1) + b"x" * (LINE_BYTES_MAX + 1), 413, "line 2"),
        (line(1) + line(1), 422, "org-000001"),
    ],
)
def test_one_bad_line_refuses_all_and_is_named(any_plane: Plane, body: bytes, status: int, said: str) -> None:
    client = any_plane.client("editor")
    told = problem(client.post("/api/v1/apply", content=body, headers=NDJSON), status)
    assert said in json.dumps(told)
    assert client.get("/api/v1/rules").json()["items"] == []


def test_a_client_that_goes_away_leaves_nothing_behind(any_plane: Plane, address: str) -> None:
    where = urlsplit(address)
    head = (
        f"POST /api/v1/apply HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {any_plane.texts['editor']}\r\n"
        "Content-Type: application/x-ndjson\r\nContent-Length: 1000000000\r\n\r\n"
    )
    # More often than there are places for uploads: none of them may be lost.
    for _ in range(3):
        with socket.create_connection((where.hostname, where.port), DEADLINE_S) as connection:
            connection.sendall(head.encode() + b"".join(line(number) for number in range(200)))
    with httpx.Client(base_url=address, headers=bearer(any_plane), timeout=DEADLINE_S) as client:
        assert client.post("/api/v1/apply", content=line(7), headers=NDJSON).json()["created"] == 1
        assert [rule["name"] for rule in client.get("/api/v1/rules").json()["items"]] == ["org-000007"]


def test_a_client_that_falls_silent_is_not_waited_for(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "SILENT_S", 0.1)
    with served(plane.app) as address:
        where = urlsplit(address)
        for method, path, media in (
            ("PUT", "/api/v1/rules/a", "application/json"),
            ("POST", "/api/v1/apply", "application/x-ndjson"),
        ):
            head = (
                f"{method} {path} HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {plane.texts['editor']}\r\n"
                f"Content-Type: {media}\r\nContent-Length: 1000\r\n\r\n"
            )
            with socket.create_connection((where.hostname, where.port), DEADLINE_S) as connection:
                connection.sendall(head.encode() + b"{")
                assert connection.recv(65_536).split()[1] == b"408"


def test_a_sender_is_slowed_down_to_what_is_taken(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, go_on = threading.Event(), threading.Event()

    def slow(lines: Iterator[bytes], **_: Any) -> Any:
        next(lines)
        taken.set()
        go_on.wait(DEADLINE_S)
        raise RuntimeError("enough")

    monkeypatch.setattr(plane.app.state.inside.services.changes, "apply_lines", slow)
    with served(plane.app) as address:
        where = urlsplit(address)
        head = (
            f"POST /api/v1/apply HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {plane.texts['editor']}\r\n"
            "Content-Type: application/x-ndjson\r\nContent-Length: 1000000000\r\n\r\n"
        )
        with socket.create_connection((where.hostname, where.port), DEADLINE_S) as connection:
            connection.sendall(head.encode() + line(1))
            assert taken.wait(DEADLINE_S)
            assert _pushed(connection) < BUFFERED_BYTES_MAX
            go_on.set()


def _pushed(connection: socket.socket) -> int:
    """How much the other side lets us send before it takes no more."""
    connection.setblocking(False)
    piece, sent, idle_since = line(1) * 1_000, 0, time.monotonic()
    while time.monotonic() - idle_since < 0.5 and sent < 2 * BUFFERED_BYTES_MAX:
        try:
            sent += connection.send(piece)
            idle_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    return sent
