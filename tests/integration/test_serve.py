"""`headgate serve` as a real process: its doors, its reloads, its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.http_node import PATIENCE_S, eventually

# How long anything may take before a test gives up waiting; nothing is asserted about how fast it was.
LOGIN = {"user": "42", "tier": "free", "path": "/api/v1/login", "method": "POST"}
RULES = """\
rules:
  - name: login
    match: {endpoint: /api/v1/login}
    by: user
    limit: 2/hour
"""
BROKEN = RULES.replace("2/hour", "often")


@dataclass
class Node:
    process: subprocess.Popen[bytes]
    log_path: Path
    ready_path: Path

    def addresses(self) -> list[str]:
        eventually(lambda: self.ready_path.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()
        found: list[str] = json.loads(self.ready_path.read_text())["addresses"]
        return found

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.addresses()[0]}", timeout=PATIENCE_S)

    def unix_client(self) -> httpx.Client:
        path = next(a.removeprefix("unix:") for a in self.addresses() if a.startswith("unix:"))
        transport = httpx.HTTPTransport(uds=path)
        return httpx.Client(transport=transport, base_url="http://headgate", timeout=PATIENCE_S)

    def log(self) -> str:
        return self.log_path.read_text()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def event(self, name: str) -> dict[str, Any] | None:
        return next((event for event in self.events() if event["event"] == name), None)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


Starter = Callable[..., Node]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    nodes: list[Node] = []

    def starter(*flags: str, listen: str = "127.0.0.1:0", **variables: str) -> Node:
        number = len(nodes)
        log_path, ready_path = tmp_path / f"log{number}", tmp_path / f"ready{number}.json"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
        command = [sys.executable, "-m", "headgate", "serve", "--listen", listen, "--log-format", "json"]
        command += ["--ready-file", str(ready_path), *flags]
        with log_path.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, env=environment | variables)
        nodes.append(Node(process, log_path, ready_path))
        return nodes[-1]

    yield starter
    for node in nodes:
        if node.process.poll() is None:
            node.process.kill()
            node.process.wait(PATIENCE_S)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def save(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    os.replace(draft, path)


def check(client: httpx.Client, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    response = client.post("/v1/check", json=facts or LOGIN)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def readiness(client: httpx.Client) -> dict[str, Any]:
    answer: dict[str, Any] = client.get("/readyz").json()
    return answer


def test_without_rules_the_starter_rules_allow_five_logins_and_refuse_the_sixth(start: Starter) -> None:
    node = start()
    with node.client() as client:
        answers = [check(client) for _ in range(6)]
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False]
    assert [answer["remaining"] for answer in answers] == [4, 3, 2, 1, 0, 0]
    assert {answer["rule"] for answer in answers} == {"free-login"}
    assert (answers[0]["limit"], answers[0]["retry_after"]) == (5, 0)
    assert 0 < answers[5]["retry_after"] <= 60
    assert answers[5]["status"] == 429
    assert node.event("no rules were given; using the starter rules")


def test_the_log_says_where_it_answers_with_how_many_rules_and_how_to_try_it(start: Starter, rules: Path) -> None:
    node = start("--rules", str(rules))
    addresses = node.addresses()
    event = node.event("headgate is answering")
    assert event is not None
    assert event["http"] == addresses[0]
    assert (event["rules"], event["rules_from"]) == (1, str(rules))
    assert f"curl -s http://{addresses[0]}/v1/check" in event["try_it"]


def test_tcp_and_the_unix_socket_share_counters(start: Starter, rules: Path, tmp_path: Path) -> None:
    node = start("--rules", str(rules), "--uds", str(tmp_path / "hg.sock"))
    with node.client() as tcp, node.unix_client() as unix:
        assert check(tcp)["remaining"] == 1
        assert check(unix)["remaining"] == 0
        assert not check(tcp)["allowed"]
        assert not check(unix)["allowed"]
        assert unix.get("/healthz").status_code == 200


def test_a_node_may_answer_on_the_unix_socket_alone(start: Starter, rules: Path, tmp_path: Path) -> None:
    node = start("--rules", str(rules), "--uds", str(tmp_path / "hg.sock"), listen="")
    assert node.addresses() == [f"unix:{tmp_path / 'hg.sock'}"]
    with node.unix_client() as client:
        assert check(client)["allowed"]


def test_every_door_answers(start: Starter, rules: Path) -> None:
    node = start("--rules", str(rules))
    with node.client() as client:
        many = client.post("/v1/checks", json=[LOGIN, LOGIN, LOGIN])
        assert [answer["allowed"] for answer in many.json()] == [True, True, False]
        plain = client.post("/v1/limit", json={"key": "k", "limit": 5, "window": 60}).json()
        assert (plain["allowed"], plain["remaining"]) == (True, 4)
        assert client.get("/healthz").status_code == 200
        ready = client.get("/readyz")
        assert ready.status_code == 200
        assert (ready.json()["ready"], ready.json()["rules"], ready.json()["rules_error"]) == (True, 1, None)
        metrics = client.get("/metrics")
        assert metrics.status_code == 200
        assert "# TYPE headgate_" in metrics.text


def test_sighup_reloads_and_keeps_usage(start: Starter, rules: Path) -> None:
    node = start("--rules", str(rules), "--rules-poll-s", "0")
    with node.client() as client:
        check(client)
        version = readiness(client)["rules_version"]
        save(rules, RULES.replace("2/hour", "7/hour"))
        node.process.send_signal(signal.SIGHUP)
        eventually(lambda: readiness(client)["rules_version"] > version)
        answer = check(client)
    assert (answer["limit"], answer["remaining"]) == (7, 5)


def test_a_saved_change_is_noticed_without_a_signal(start: Starter, rules: Path) -> None:
    node = start("--rules", str(rules), "--rules-poll-s", "0.05")
    with node.client() as client:
        assert readiness(client)["rules"] == 1
        save(rules, RULES + "  - {name: all, by: global, limit: 9/hour}\n")
        eventually(lambda: readiness(client)["rules"] == 2)
    assert eventually(lambda: node.event("rules reloaded"))["rules"] == 2


def test_a_broken_file_is_refused_shown_and_forgotten_once_mended(start: Starter, rules: Path) -> None:
    node = start("--rules", str(rules), "--rules-poll-s", "0.05")
    with node.client() as client:
        version = readiness(client)["rules_version"]
        save(rules, BROKEN)
        error = eventually(lambda: readiness(client)["rules_error"])
        assert error.startswith(f"{rules}:5:12: rules[0].limit: ")
        assert readiness(client)["rules_version"] == version
        assert check(client)["limit"] == 2
        logged = eventually(lambda: node.event("rules refused; the old ones go on"))
        assert (logged["level"], logged["error"]) == ("error", error)
        save(rules, RULES)
        eventually(lambda: readiness(client)["rules_error"] is None)


def test_a_node_does_not_start_with_broken_rules(start: Starter, rules: Path) -> None:
    rules.write_text(BROKEN)
    node = start("--rules", str(rules))
    assert node.process.wait(PATIENCE_S) == 2
    assert f"{rules}:5:12: rules[0].limit: " in node.log()
    assert not node.ready_path.exists()


def test_a_taken_address_is_named(start: Starter) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        node = start(listen=address)
        assert node.process.wait(PATIENCE_S) == 1
    assert address in node.log()
    assert "Traceback" not in node.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_with_0(start: Starter, tmp_path: Path, number: signal.Signals) -> None:
    node = start("--uds", str(tmp_path / "hg.sock"))
    with node.client() as client:
        check(client)
        assert node.stop(number) == 0
    assert node.event("stopped")


def test_settings_come_from_the_file_and_the_environment(start: Starter, rules: Path, tmp_path: Path) -> None:
    (tmp_path / "headgate.toml").write_text(f"rules = {str(rules)!r}\nno_rule = 'deny'\n")
    node = start(HEADGATE_THREADS="1", HEADGATE_TREADS="2")
    with node.client() as client:
        assert readiness(client)["rules"] == 1
        assert not check(client, {"path": "/elsewhere"})["allowed"]
    warning = node.event("setting ignored")
    assert warning is not None
    assert "did you mean HEADGATE_THREADS?" in warning["what"]
