"""examples/gateway: the application, and the gateway in front of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.examples.application import PATIENCE_S, START_TIMEOUT_S, Example, environment
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import wait_for

PORTS = ("3000", "8080", "8082")


class Standing:
    """Both programs, started with the commands of the page, on ports of their own."""

    def __init__(self, folder: Path) -> None:
        self.example = Example("gateway", folder)
        self.key = self.example.make_keys(1)["ann"]
        self._ports = {port: str(free_port()) for port in PORTS}
        settings = self.example.folder / "headgate.toml"
        settings.write_text(self._here(settings.read_text()))
        self.application = self._started("python")
        self.node = self._started("headgate node")
        self.url, self.admin = (f"http://{HOST}:{self._ports[port]}" for port in ("8080", "8082"))
        wait_for("the gateway", self._is_up, START_TIMEOUT_S, self.node.log_tail)

    def close(self) -> None:
        self.node.kill()
        self.application.kill()

    def _here(self, text: str) -> str:
        return re.sub("|".join(rf"\b{port}\b" for port in PORTS), lambda found: self._ports[found[0]], text)

    def _started(self, program: str) -> Process:
        (line,) = self.example.page.commands(program)
        words = self._here(line).split()
        command = [sys.executable, *(["-m"] if words[0] == "headgate" else []), *words[words[0] == "python" :]]
        return Process(command, self.example.folder, environment({"HEADGATE_LOG_FORMAT": "json"}))

    def _is_up(self) -> bool:
        """Looked at from beside: at the gateway every look would count."""
        assert self.node.exit_code is None, self.node.log_tail()
        looks = (f"{self.admin}/readyz", f"http://{HOST}:{self._ports['3000']}/")
        try:
            return all(httpx.get(url, timeout=PATIENCE_S, trust_env=False).status_code == 200 for url in looks)
        except httpx.TransportError:
            return False


@pytest.fixture
def standing(tmp_path: Path) -> Iterator[Standing]:
    made = Standing(tmp_path)
    yield made
    made.close()


def test_the_page_is_right(standing: Standing) -> None:
    with httpx.Client(base_url=standing.url, timeout=PATIENCE_S, trust_env=False) as client:
        visits = [client.get("/hello") for _ in range(6)]
        assert [visit.status_code for visit in visits] == [200] * 5 + [429]
        assert visits[4].headers["X-RateLimit-Remaining"] == "0"
        assert int(visits[5].headers["Retry-After"]) > 0
        known = client.get("/hello", headers=standing.key)
        assert known.headers["X-RateLimit-Limit"] == "100"
        assert known.json() == {"path": "/hello", "user": "ann-1", "tier": "pro", "from": HOST}
        assert client.get("/hello", headers={"X-API-Key": "wrong"}).status_code == 401
        assert client.get("/internal/users", headers=standing.key).status_code == 403
        metrics = httpx.get(f"{standing.admin}/metrics", trust_env=False).text
        answered = re.findall(r'^headgate_upstream_responses_total\{.*class="2xx".*\} (\d+)', metrics, re.MULTILINE)
        assert answered == ["6"]
        standing.application.kill()
        assert client.get("/hello", headers=standing.key).status_code == 502
