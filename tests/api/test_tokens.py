"""Tokens: the first one, how long they last, and how soon they end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headgate.control.api.recorder import BATCH_MAX, WAITING_MAX, Recorder
from headgate.control.tokens import Caller, Doorman, Refusal, Role, digest, first_token, new_token
from headgate.storage.sql import Database, calls, tokens
from headgate.storage.sql.calls import CallRow
from tests.api.plane import DEADLINE_S, Plane, make_plane, problem


def test_the_first_token_is_made_once_however_many_start_at_once(database: Database) -> None:
    barrier = threading.Barrier(6)

    def start(_: int) -> str | None:
        barrier.wait(DEADLINE_S)
        return first_token(database)

    with ThreadPoolExecutor(6) as pool:
        made = [text for text in pool.map(start, range(6)) if text is not None]
    assert len(made) == 1
    found = Doorman(database).admit(made[0])
    assert isinstance(found, Caller)
    assert found.role is Role.ADMIN
    assert first_token(database) is None


def test_a_token_shows_its_secret_to_nobody(sqlite: Database) -> None:
    made = new_token("ci", Role.VIEWER, by="me")
    secret = made.text.rpartition("_")[2]
    assert secret not in repr(made)
    assert digest(made.text) not in repr(made)
    with sqlite.aside() as tx:
        tokens.add(tx, made.row)
    assert secret not in repr(Doorman(sqlite).admit(made.text))
    assert len({new_token("x", Role.VIEWER, by="me").text for _ in range(100)}) == 100


def test_a_token_revoked_elsewhere_ends_within_a_second(database: Database) -> None:
    now_s = [0.0]
    doorman = Doorman(database, now=lambda: now_s[0])
    made = new_token("ci", Role.EDITOR, by="me")
    with database.aside() as tx:
        tokens.add(tx, made.row)
    assert doorman.remembered(made.text) is None
    assert isinstance(doorman.admit(made.text), Caller)
    assert doorman.remembered(made.text) is not None
    assert doorman.remembered(made.text + "x") is None
    with database.aside() as tx:
        tokens.revoke(tx, made.row.id, datetime.now(UTC), "somebody, elsewhere")
    now_s[0] = 1.01
    assert doorman.remembered(made.text) is None
    assert doorman.admit(made.text) is Refusal.REVOKED


def test_what_was_read_before_a_revocation_is_not_remembered_after_it(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    doorman = Doorman(sqlite)
    made = new_token("ci", Role.EDITOR, by="me")
    with sqlite.aside() as tx:
        tokens.add(tx, made.row)
    real = tokens.get

    def late(*arguments: object) -> object:
        row = real(*arguments)  # type: ignore[arg-type]
        doorman.forget(made.row.id)
        return row

    monkeypatch.setattr(tokens, "get", late)
    assert isinstance(doorman.admit(made.text), Caller)
    assert doorman.remembered(made.text) is None


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"role": "admin"}, "name"),
        ({"name": "x"}, "role"),
        ({"name": "x", "role": "root"}, "role"),
        ({"name": "", "role": "admin"}, "name"),
        ({"name": "a\nb", "role": "admin"}, "name"),
        ({"name": "Headgate", "role": "admin"}, "name"),
        ({"name": "é" * 100, "role": "admin"}, "name"),
        ({"name": "x", "role": "admin", "expires": "soon"}, "expires"),
        ({"name": "x", "role": "admin", "expires": 12}, "expires"),
        ({"name": "x", "role": "admin", "hash": "0" * 64}, "hash"),
    ],
)
def test_a_mistake_in_a_new_token_is_told_with_its_path(plane: Plane, body: dict[str, object], path: str) -> None:
    told = problem(plane.client().post("/api/v1/tokens", json=body), 422)
    assert [error["path"] for error in told["errors"]] == [path]


def test_a_token_tells_when_it_ends_and_when_it_was_used(plane: Plane) -> None:
    admin = plane.client()
    made = admin.post("/api/v1/tokens", json={"name": "ci", "role": "viewer", "expires": "90d"}).json()
    assert (made["last_used"], made["state"]) == (None, "active")
    assert made["expires"] > made["created"]
    plane.client(made["token"]).get("/api/v1/me")
    plane.recorded()
    assert admin.get(f"/api/v1/tokens/{made['id']}").json()["last_used"] is not None


def test_two_writers_with_the_same_etag_at_the_same_time_one_wins(database: Database) -> None:
    """Through two control planes, as two people would."""
    rule = {"by": "user", "limit": "1/s"}
    with make_plane(database) as one, make_plane(database) as other:
        etag = one.client().put("/api/v1/rules/a", json=rule).headers["etag"]
        clients = [plane.client("editor", **{"If-Match": etag}) for plane in (one, other) for _ in range(3)]
        barrier = threading.Barrier(len(clients))

        def write(number: int) -> int:
            barrier.wait(DEADLINE_S)
            patch = {"limit": f"{number + 2}/s"}
            return clients[number].patch("/api/v1/rules/a", json=patch).status_code

        with ThreadPoolExecutor(len(clients)) as pool:
            statuses = sorted(pool.map(write, range(len(clients))))
        assert statuses == [200] + [412] * (len(clients) - 1)
        assert one.client().get("/api/v1/me").json()["head"].endswith(".2")


def test_the_record_of_calls_is_bounded_and_never_waited_for(sqlite: Database) -> None:
    def row(number: int) -> CallRow:
        return CallRow(datetime.now(UTC), f"who {number}", "PUT", "/api/v1/rules/a", 200)

    recorder = Recorder(sqlite)
    with sqlite.write():
        # Nobody can write meanwhile.
        for number in range(WAITING_MAX + BATCH_MAX + 10):
            recorder.put(row(number))
        assert recorder.dropped >= 10
    assert recorder.flush(DEADLINE_S)
    recorder.put(row(0))
    recorder.stop()
    with sqlite.read() as tx:
        kept = calls.page(tx, limit=1)
    assert kept[0].who == "who 0", "what waited was written when it stopped"


def test_strangers_leave_room_in_the_record_for_what_was_changed(sqlite: Database) -> None:
    recorder = Recorder(sqlite)
    with sqlite.write():
        # Nobody can write meanwhile.
        for _ in range(WAITING_MAX + BATCH_MAX):
            recorder.put(CallRow(datetime.now(UTC), "unknown token", "GET", "/api/v1/rules", 401))
        dropped = recorder.dropped
        recorder.put(CallRow(datetime.now(UTC), "ann", "POST", "/api/v1/tokens", 201))
        assert recorder.dropped == dropped
    recorder.stop()
    with sqlite.read() as tx:
        assert [row.status for row in calls.page(tx, limit=2, who="ann")] == [201]


def test_one_of_several_admins_can_be_revoked_however_many_tokens_there_are(plane: Plane) -> None:
    """A token that leaked has to end, and that it is not the last may only show far down the list."""
    with plane.database.aside() as tx:
        for number in range(1_100):
            made = new_token("ci", Role.VIEWER, by="tests").row
            tokens.add(tx, replace(made, id=f"a{number:011}"))
        tokens.add(tx, replace(new_token("other", Role.ADMIN, by="tests").row, id="z" * 12))
    admin = plane.client()
    leaked = admin.get("/api/v1/me").json()["id"]
    assert admin.post(f"/api/v1/tokens/{leaked}:revoke").json()["state"] == "revoked"
