"""Several workers under real servers: one count through a store, a warning without one, and a lifespan for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.middleware.workers import WARNING
from tests.servers.server import Server
from tests.servers.waiting import wait_for
from tests.web.load import ask_at_once, each_worker, statuses
from tests.web.servers import ASGI_SERVERS, WSGI_SERVERS, WebServer

LIMIT = 50
# No window ends while a test runs, and no answer is lost to whatever else the machine does.
RULES = [{"name": "per-user", "by": "user", "limit": f"{LIMIT}/day"}]
USERS = ("alice", "bob")
PATIENT_S = 5.0
TIMEOUT_S = 30
ALL_SERVERS = (*ASGI_SERVERS, *WSGI_SERVERS)


def target_of(server: str) -> str:
    return f"tests.web.application:{'wsgi' if server in WSGI_SERVERS else 'asgi'}"


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


def admit_exactly(server: str, workers: int, store: Server, *options: str) -> None:
    store.command("FLUSHALL")
    wanted = {"rules": RULES, "store": store.url, "store_deadline": PATIENT_S}
    with WebServer(server, target_of(server), workers=workers, wanted=wanted, options=options) as web:
        with each_worker(web, workers) as clients:
            first = [
                client.get("/items", headers={"x-user": user}).json() for client in clients.values() for user in USERS
            ]
        answers = ask_at_once(web, "/items", USERS * LIMIT * 2, concurrent=16)
        assert WARNING not in web.log(), "nothing to warn of: they share a store"
    assert {told["path"] for told in first} == {"store"}
    for user in USERS:
        told = statuses([answer for answer in answers if answer.user == user])
        assert told == {200: LIMIT - workers, 429: LIMIT + workers}, (user, told)


def test_four_workers_of_uvicorn_admit_exactly_the_limit(store: Server) -> None:
    admit_exactly("uvicorn", 4, store)


@pytest.mark.parametrize("server", [name for name in ALL_SERVERS if name != "uvicorn"])
def test_two_workers_of_every_other_server_admit_exactly_the_limit(server: str, store: Server) -> None:
    admit_exactly(server, 2, store)


@pytest.mark.parametrize("server", ["gunicorn", "gunicorn-asgi"])
def test_workers_forked_from_one_that_has_loaded_the_application_admit_exactly_the_limit(
    server: str, store: Server
) -> None:
    admit_exactly(server, 2, store, "--preload")


@pytest.mark.parametrize("server", ALL_SERVERS)
def test_several_workers_that_count_in_memory_are_warned_of_once(server: str) -> None:
    """Once: by the worker that found another there before it."""
    with WebServer(server, target_of(server), workers=2, wanted={"rules": RULES}) as web:
        with each_worker(web, 2) as clients:
            for client in [*clients.values()] * 3:
                client.get("/items", headers={"x-user": "alice"}).raise_for_status()
        wait_for("the warning", lambda: WARNING in web.log(), TIMEOUT_S, web.log)
        web.stop()
        assert web.log().count(WARNING) == 1, web.log()


@pytest.mark.parametrize("server", ALL_SERVERS)
def test_one_worker_refuses_alike_under_every_server_and_is_warned_of_nothing(server: str) -> None:
    rules = [{"name": "per-user", "by": "user", "limit": "1/day"}]
    with WebServer(server, target_of(server), wanted={"rules": rules}) as web:
        with web.client() as client:
            allowed, refused = (client.get("/items", headers={"x-user": "42"}) for _ in range(2))
            if server in ASGI_SERVERS:
                assert client.get("/probe").json()["lifespan"] == ["started"]
        web.stop()
        assert WARNING not in web.log()
        # The application's own lifespan, behind ours.
        assert web.log().count("lifespan ended") == (server in ASGI_SERVERS)
    assert (allowed.status_code, allowed.headers["x-ratelimit-remaining"]) == (200, "0")
    assert refused.status_code == 429
    assert refused.json() == {"error": "Rate limit exceeded", "retry_after": int(refused.headers["retry-after"])}
    assert refused.headers["ratelimit-policy"] == '"per-user";q=1;w=86400'
    assert refused.headers["content-type"] == "application/json"
