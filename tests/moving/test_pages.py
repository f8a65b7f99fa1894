"""Every snippet of the pages runs, theirs and ours, and the tables say what becomes of the requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.moving.claims import FOLDER, OURS, Claim, Requests, claims, names, page, run, told
from tests.servers.server import Server

# Theirs, about itself, from Python 3.14 on.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:slowapi.extension")

ROOT = Path(__file__).parent.parent.parent
STORE_IN_PAGES = "redis://127.0.0.1:6379"
# A busy machine must not make a test fail open.
DEADLINE_IN_PAGES, PATIENT_DEADLINE = "store_deadline=0.005", "store_deadline=30.0"
PATIENCE_S = 60.0
DJANGO = ("django-ratelimit",)


def ask_asgi(app: Any, requests: Requests) -> list[str]:
    # As in a server, errors of the application are its 500s.
    client = TestClient(app, client=(requests.client, 50_000), raise_server_exceptions=False)
    return [str(_send(client.request, requests).status_code) for _ in range(requests.times)]


def ask_wsgi(app: Any, requests: Requests) -> list[str]:
    client = app.test_client()
    overrides = {"REMOTE_ADDR": requests.client}
    return [
        str(
            client.open(
                requests.path,
                method=requests.method,
                headers=requests.headers,
                data=requests.form or None,
                environ_overrides=overrides,
            ).status_code
        )
        for _ in range(requests.times)
    ]


def _send(request: Callable[..., Any], requests: Requests) -> Any:
    return request(requests.method, requests.path, headers=requests.headers, data=requests.form or None)


WAYS: dict[str, Callable[[Any, Requests], list[str]]] = {
    "slowapi": ask_asgi,
    "fastapi-limiter": ask_asgi,
    "flask-limiter": ask_wsgi,
}


def sides() -> Iterator[tuple[Claim, str]]:
    for name in names():
        for claim in claims(name):
            if name not in DJANGO:
                yield from ((claim, side) for side in claim.sides)


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.mark.parametrize(("claim", "side"), list(sides()), ids=lambda value: str(value).replace(" ", "_"))
def test_a_program_answers_as_its_page_says(claim: Claim, side: str, request: pytest.FixtureRequest) -> None:
    example = claim.programs[side]
    if STORE_IN_PAGES in example.text:
        store: Server = request.getfixturevalue("store")
        store.command("FLUSHALL")
        text = example.text.replace(STORE_IN_PAGES, store.url).replace(DEADLINE_IN_PAGES, PATIENT_DEADLINE)
        example = replace(example, text=text)
    variables = run(example, FOLDER / f"{claim.page}.md")
    for row in claim.rows:
        if row.written == "`answers`":
            assert told(variables) == row.answers[side], row.written
        else:
            assert WAYS[claim.page](variables["app"], row.requests) == row.answers[side], row.written


@pytest.mark.parametrize("name", [name for name in DJANGO if name in names()])
def test_a_project_answers_as_its_page_says(name: str) -> None:
    """Django's settings are one for a process: so each side has one of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    for side in (name, OURS):
        command = [sys.executable, "-W", "error", "-m", "tests.moving.django_side", name, side]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        answered: dict[str, list[list[str]]] = json.loads(done.stdout)
        for claim in claims(name):
            if side in claim.programs:
                assert answered[claim.section] == [row.answers[side] for row in claim.rows], f"{claim}, {side}"


@pytest.mark.parametrize("name", names())
def test_a_page_shows_both_sides_and_what_they_answer(name: str) -> None:
    found = list(claims(name))
    assert any(claim.sides == [name, OURS] for claim in found)
    assert all(claim.rows for claim in found)


def test_the_first_page_leads_to_every_other() -> None:
    assert {link.removesuffix(".md") for link in page("index").links() if "/" not in link} >= set(names())
