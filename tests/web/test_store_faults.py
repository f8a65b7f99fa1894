"""A store that dies or hangs behind a web application under load: nobody is refused, and nothing stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest

from tests.faults.load import DEADLINE_MARGIN, DEADLINE_S
from tests.servers.server import Server
from tests.servers.waiting import wait_for
from tests.web.load import Answer, keep_asking, statuses
from tests.web.servers import WebServer

RULES = [
    {"name": "per-user", "by": "user", "limit": "1000000/day"},
    {"name": "everyone", "by": "global", "limit": "100000000/day"},
]
CLIENTS = 8
BEFORE_S = 0.5
OUTAGE_S = 1.5
TIMEOUT_S = 20
GAP_S_MAX = DEADLINE_S * DEADLINE_MARGIN
GROWTH_BYTES_MAX = 20_000_000


@pytest.fixture
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def web(store: Server) -> Iterator[WebServer]:
    with WebServer("uvicorn", "tests.web.application:asgi", wanted={"rules": RULES, "store": store.url}) as web:
        with web.client() as client:
            wait_for("the store decides", lambda: decider(client) == "store", TIMEOUT_S, web.log)
        yield web


def decider(client: httpx.Client) -> str:
    path: str = client.get("/items", headers={"x-user": "first"}).json()["path"]
    return path


def under_load(
    web: WebServer, break_it: Callable[[], object], mend_it: Callable[[], object]
) -> tuple[list[Answer], list[Answer], dict[str, Any]]:
    """Answers from the whole time and from the outage, and what the application told of the outage when it was over."""

    async def run() -> tuple[list[Answer], float, float]:
        over = asyncio.Event()
        clock = asyncio.get_running_loop().time
        load = asyncio.ensure_future(keep_asking(web, "/items", CLIENTS, over))
        await asyncio.sleep(BEFORE_S)
        await asyncio.to_thread(probe, web, "?reset")
        await asyncio.to_thread(break_it)
        broken_s = clock()
        await asyncio.sleep(OUTAGE_S)
        mended_s = clock()
        told.update(await asyncio.to_thread(probe, web))
        await asyncio.to_thread(mend_it)
        await asyncio.to_thread(wait_by_store, web)
        over.set()
        return await load, broken_s, mended_s

    told: dict[str, Any] = {}
    answers, broken_s, mended_s = asyncio.run(run())
    outage = [answer for answer in answers if answer.start_s >= broken_s and answer.start_s < mended_s]
    return answers, outage, told


def probe(web: WebServer, query: str = "") -> dict[str, Any]:
    with web.client() as client:
        told: dict[str, Any] = client.get(f"/probe{query}").json()
    return told


def wait_by_store(web: WebServer) -> None:
    with web.client() as client:
        wait_for("the store decides again", lambda: decider(client) == "store", TIMEOUT_S, web.log)


def assert_nobody_noticed(answers: Sequence[Answer], outage: Sequence[Answer], told: dict[str, Any]) -> None:
    assert statuses(answers) == {200: len(answers)}
    assert len(outage) >= CLIENTS
    deciders = {answer.told["path"] for answer in outage}
    assert "fallback_open" in deciders, deciders
    assert told["gap_s"] <= GAP_S_MAX


def test_a_killed_store_costs_no_request_and_the_loop_never_stands_still(web: WebServer, store: Server) -> None:
    assert_nobody_noticed(*under_load(web, store.kill9, store.restart))


def test_a_hung_store_costs_no_request_and_the_loop_never_stands_still(web: WebServer, store: Server) -> None:
    assert_nobody_noticed(*under_load(web, store.stop_signal, store.cont))


def test_outages_leave_nothing_behind(web: WebServer, store: Server) -> None:
    """No tasks, no passages; memory stays where the first outage left it."""
    sizes = []
    for _ in range(3):
        under_load(web, store.stop_signal, store.cont)
        told = probe(web, "?collect")
        sizes.append(told["resident_bytes"])
        assert told["passages"] == 0
        # This request's, the heartbeat's and the server's own.
        assert told["tasks"] <= 2 + CLIENTS
    assert sizes[-1] - sizes[0] < GROWTH_BYTES_MAX, sizes


def test_closed_answers_503_with_a_time_while_the_store_is_away(store: Server) -> None:
    rules = [{"name": "login", "by": "user", "limit": "5/minute", "on_store_failure": "closed"}]
    with WebServer("uvicorn", "tests.web.application:asgi", wanted={"rules": rules, "store": store.url}) as web:
        store.kill9()
        with web.client() as client:
            response = client.get("/items", headers={"x-user": "42"})
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert client.get("/ready").status_code == 200


@pytest.mark.parametrize("server", ["uvicorn", "gunicorn"])
@pytest.mark.parametrize("is_hung", [True, False], ids=["hung", "dead"])
def test_an_application_starts_answers_and_ends_although_its_store_is_away(
    store: Server, server: str, is_hung: bool
) -> None:
    if is_hung:
        store.stop_signal()
    else:
        store.kill9()
    target = f"tests.web.application:{'wsgi' if server == 'gunicorn' else 'asgi'}"
    with WebServer(server, target, wanted={"rules": RULES, "store": store.url}) as web:
        with web.client() as client:
            assert decider(client) == "fallback_open"
        web.stop()
