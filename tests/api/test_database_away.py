"""The database goes away and comes back: clear answers meanwhile, and nobody has to do anything after."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from headgate.control.api import Services, make_app
from headgate.control.changes import Changes
from headgate.storage.sql import Database, Transaction, WriteTransaction
from tests.api.plane import DEADLINE_S, Plane, make_plane, problem
from tests.servers.postgres import Postgres

UNKNOWN = "hga_" + "a" * 12 + "_" + "A" * 43


class Hasty(Database):
    """Does not wait as long as a person would."""

    @contextmanager
    def read(self, *, timeout_s: float = 1.0) -> Iterator[Transaction]:
        with super().read(timeout_s=min(timeout_s, 1.0)) as tx:
            yield tx

    @contextmanager
    def write(self, *, timeout_s: float = 1.0) -> Iterator[WriteTransaction]:
        with super().write(timeout_s=min(timeout_s, 1.0)) as tx:
            yield tx


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    # What was answered must be there after a kill, as it is with the settings people use.
    with Postgres(settings=[("synchronous_commit", "on")]) as server:
        yield server


@pytest.fixture
def fragile(own_server: Postgres) -> Iterator[Plane]:
    database = Hasty(own_server.new_database(), connect_timeout_s=1.0)
    with make_plane(database) as made:
        yield made
    database.close()


@pytest.mark.parametrize("how", ["killed", "hangs", "stopped"])
def test_answers_are_503_while_the_database_is_away_and_good_after(
    own_server: Postgres, fragile: Plane, how: str
) -> None:
    away: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "killed": (own_server.kill9, own_server.start),
        "hangs": (own_server.hang, own_server.cont),
        "stopped": (own_server.stop, own_server.start),
    }
    goes, comes_back = away[how]
    client = fragile.client()
    rule = {"by": "user", "limit": "1/s"}
    assert client.put("/api/v1/rules/a", json=rule).status_code == 201
    goes()
    try:
        for response in (
            client.get("/api/v1/rules"),
            client.put("/api/v1/rules/b", json=rule),
            client.post("/api/v1/apply", json={"rules": [rule | {"name": "c"}]}),
        ):
            body = problem(response, 503)
            assert response.headers["retry-after"] == "5"
            assert "database" in body["title"]
            assert "password" not in response.text
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        told = client.get("/metrics").text
        assert "headgate_control_database_up 0" in told
        assert "headgate_control_database_errors_total 3" in told
    finally:
        comes_back()
    ends = time.monotonic() + DEADLINE_S
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < ends, "it did not recover"
        time.sleep(0.05)
    assert client.put("/api/v1/rules/b", json=rule).status_code in (200, 201)
    assert client.get("/api/v1/rules/a").status_code == 200


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_without_tables_is_not_ready_yet(own_server: Postgres, tmp_path: Path, kind: str) -> None:
    url = own_server.empty_database() if kind == "postgresql" else f"sqlite:///{tmp_path / 'new.db'}"
    database = Database(url)
    app = make_app(Services(database, Changes(database)))
    with TestClient(app, headers={"Authorization": f"Bearer {UNKNOWN}"}) as client:
        body = problem(client.get("/api/v1/rules"), 503)
        assert "127.0.0.1" not in str(body), "who has no token is not told where the database is"
        assert client.get("/readyz").status_code == 503
        assert "headgate_control_database_up 0" in client.get("/metrics").text
        database.migrate()
        problem(client.get("/api/v1/rules"), 401)
    database.close()


def test_a_change_that_may_have_been_made_is_not_said_not_to_have_been(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = sa.Connection.commit

    def lost(connection: sa.Connection) -> None:
        commit(connection)
        raise sa.exc.OperationalError("COMMIT", None, psycopg.OperationalError("the connection is lost"))

    # Nothing but the change itself meets the loss.
    monkeypatch.setattr("headgate.control.tokens.CACHE_S", DEADLINE_S)
    client = plane.client()
    assert client.put("/api/v1/rules/first", json={"by": "user", "limit": "1/s"}).status_code == 201
    with monkeypatch.context() as patched:
        patched.setattr(sa.Connection, "commit", lost)
        told = problem(client.put("/api/v1/rules/a", json={"by": "user", "limit": "1/s"}), 503)
    assert "may or may not" in told["detail"]
    assert "nothing was changed" not in told["detail"]
    assert client.get("/api/v1/rules/a").status_code == 200, "as it was made, in truth"
    assert client.put("/api/v1/rules/b", json={"by": "user", "limit": "1/s"}).status_code == 201
