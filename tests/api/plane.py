"""A control plane for tests: the API over a real database, with a token of every role."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import httpx2
import structlog
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from headgate.control.api import Services, make_app
from headgate.control.changes import Changes
from headgate.control.cuts import Cuts
from headgate.control.epochs import Epochs
from headgate.control.fleet import Fleet
from headgate.control.head import Head
from headgate.control.ledger import Ledger
from headgate.control.local_feed import LocalFeed
from headgate.control.snapshots import Snapshots
from headgate.control.tokens import Role, new_token
from headgate.storage.sql import Database, tokens

KEY_SECRET = b"a secret of the tests, long enough"
FEED_KEY = b"the feed key of the tests, long enough"
DEADLINE_S = 20.0

# Starlette's client for tests has the one, real servers are asked with the other.
Answered = httpx.Response | httpx2.Response


@dataclass
class Plane:
    """`texts` are tokens by what is true of them: viewer, editor, admin, expired, revoked."""

    database: Database
    app: FastAPI
    texts: dict[str, str]
    clients: list[TestClient] = field(default_factory=list)

    def client(self, token: str | None = "admin", **headers: str) -> TestClient:
        """Speaks to the application in this process; `token` is one of `texts`, or a text of its own."""
        if token is not None:
            headers = {"Authorization": f"Bearer {self.texts.get(token, token)}", **headers}
        made = TestClient(self.app, headers=headers, raise_server_exceptions=False)
        self.clients.append(made)
        return made

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.app.state.inside.recorder.stop()

    def recorded(self) -> list[dict[str, Any]]:
        """The record of calls, once all of it is written."""
        assert self.app.state.inside.recorder.flush(DEADLINE_S)
        items: list[dict[str, Any]] = self.client().get("/api/v1/calls").json()["items"]
        return items


@contextlib.contextmanager
def make_plane(database: Database, *, limits: Mapping[str, Any] | None = None) -> Iterator[Plane]:
    """The API alone: nothing is published."""
    changes = Changes(database, key_secret=KEY_SECRET)
    plane = Plane(database, make_app(Services(database, changes, feed_key=FEED_KEY, limits=limits)), _tokens(database))
    yield plane
    plane.close()


@contextlib.contextmanager
def make_whole_plane(database: Database, folder: Path) -> Iterator[Plane]:
    """With a feed for nodes, and a fleet of those that were heard of."""
    log = structlog.get_logger("tests")
    ledger = Ledger(database)
    head = Head(ledger, log=log)
    cuts, snapshots = Cuts(ledger, FEED_KEY), Snapshots(ledger, FEED_KEY, folder=str(folder), log=log)
    feed = LocalFeed(head, cuts, snapshots, Epochs(ledger, head, log=log))
    fleet = Fleet(database, head, log=log)
    changes = Changes(database, key_secret=KEY_SECRET, committed=head.committed)
    services = Services(database, changes, fleet=fleet, feed=feed, feed_key=FEED_KEY, limits=None)
    plane = Plane(database, make_app(services), _tokens(database))
    head.start()
    fleet.start()
    yield plane
    plane.close()
    fleet.stop()
    head.stop()
    snapshots.close()


def _tokens(database: Database) -> dict[str, str]:
    now = datetime.now(UTC)
    made = {role.word: new_token(role.word, role, by="tests") for role in Role}
    made["expired"] = new_token("expired", Role.ADMIN, by="tests", expires=now - timedelta(seconds=1))
    made["revoked"] = new_token("revoked", Role.ADMIN, by="tests")
    with database.aside() as tx:
        for token in made.values():
            tokens.add(tx, token.row)
        tokens.revoke(tx, made["revoked"].row.id, now, "tests")
    return {name: token.text for name, token in made.items()}


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The application under a real server: its address."""
    server = uvicorn.Server(
        uvicorn.Config(app, "127.0.0.1", 0, log_level="error", timeout_graceful_shutdown=2, lifespan="off")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ends = time.monotonic() + DEADLINE_S
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < ends, "the server takes too long to start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(DEADLINE_S)


def problem(response: Answered, status: int) -> dict[str, Any]:
    """The body of an answer that must be a problem of this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body
