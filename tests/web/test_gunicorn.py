"""Under a real server with threads and workers, exactly the limit is admitted."""

from __future__ import annotations

import pytest

from headgate.middleware.workers import WARNING
from tests.servers.server import Server
from tests.servers.waiting import wait_for
from tests.web.apps import LIMIT
from tests.web.gunicorn import Gunicorn

PATIENCE_S = 30
THREADS = ("--threads", "8")
APPS = {
    "flask": ("tests.web.apps:flask_app", *THREADS),
    "django": ("tests.web.django_site:application", *THREADS),
    "django-async": ("tests.web.django_site:asgi_application", "-k", "asgi"),
}


@pytest.fixture(params=list(APPS))
def app(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return APPS[request.param]


def test_one_worker_admits_exactly_the_limit(app: tuple[str, ...]) -> None:
    with Gunicorn(*app) as server:
        # What its own limit refuses is given back to the rule: so much is left for others.
        assert server.statuses("/limited", LIMIT) == {200: LIMIT // 2, 429: LIMIT // 2}
        assert server.statuses("/", LIMIT) == {200: LIMIT // 2, 429: LIMIT // 2}


def test_workers_that_share_a_store_admit_exactly_the_limit(app: tuple[str, ...]) -> None:
    with Server() as store, Gunicorn(*app, "-w", "3", TEST_STORE=store.url) as server:
        assert server.statuses("/", 2 * LIMIT) == {200: LIMIT, 429: LIMIT}


def test_workers_that_share_nothing_are_warned_of(app: tuple[str, ...]) -> None:
    with Gunicorn(*app, "-w", "3") as server:
        wait_for("a second worker is asked", lambda: server.ask("/") and WARNING in server.log(), PATIENCE_S)
