"""The commands for several workers, with a real store."""

from __future__ import annotations

import pytest

from tests.examples.application import PATIENCE_S, Example
from tests.servers.server import Server
from tests.servers.waiting import wait_for


@pytest.mark.parametrize(
    ("name", "program", "path"),
    [("fastapi-tiers", "uvicorn", "/weather/oslo"), ("flask", "gunicorn", "/items"), ("django", "gunicorn", "/items")],
    ids=["fastapi-tiers", "flask", "django"],
)
def test_workers_share_their_counters_through_the_store(
    name: str, program: str, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    example = Example(name, tmp_path_factory.mktemp("example"))
    example.make_keys(0)
    with Server() as store, example.running(program, "/healthz", store.url) as client:
        # A machine under test may be slower than the 5 ms a request waits; then it passes, and the next is counted.
        wait_for("a refusal", lambda: client.get(path).status_code == 429, PATIENCE_S)
        assert store.client().keys("hg1:*")
    assert "several workers" not in (example.folder / "server.log").read_text()
