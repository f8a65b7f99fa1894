"""`headgate serve`: a node and a control plane in one process, behind one address."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers.ports import HOST
from tests.servers.program import Serve
from tests.servers.waiting import wait_for

SOON_S = 20.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serve]:
    with Serve(tmp_path / "served") as program:
        yield program


def check(program: Serve, **facts: Any) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.post(f"{program.url}/v1/check", json=facts).json()
    return answer


def test_what_the_api_changes_the_node_enforces(served: Serve) -> None:
    with served.admin() as admin:
        assert [rule["name"] for rule in admin.get("/rules").json()["items"]] == [
            "free-login",
            "org-ceiling",
            "per-ip",
            "premium-login",
        ]
        made = admin.post("/rules", json={"endpoint": "/api/v1/payment", "limit": 2, "window": "60s"})
        assert made.status_code == 201, made.text
        version = made.headers["X-Headgate-Version"]
        assert admin.get(f"/versions/{version}/fleet", params={"wait": 10}).json()["done"]
        paid = [check(served, user="7", path="/api/v1/payment")["allowed"] for _ in range(3)]
        assert paid == [True, True, False]

        block = admin.post("/blocks", json={"ip": "203.0.113.0/24", "for": "1h", "why": "an attack"}).json()
        wait_for("the block", lambda: check(served, ip="203.0.113.9")["path"] == "blocked", SOON_S)
        assert admin.delete(f"/blocks/{block['id']}").status_code == 204
        wait_for("its end", lambda: check(served, ip="203.0.113.9")["path"] != "blocked", SOON_S)

        admin.put("/switches/*")
        wait_for("the kill switch", lambda: check(served, user="7", path="/api/v1/payment")["allowed"], SOON_S)


def test_a_key_of_the_control_plane_is_known_at_the_door(served: Serve) -> None:
    with served.admin() as admin:
        admin.put("/tiers/pro", json={"name": "pro"})
        made = admin.post("/keys", json={"user": "42", "tier": "pro", "limit": "2/minute"})
        assert made.status_code == 201, made.text
        key = made.json()

        def ask() -> httpx.Response:
            headers = {"X-API-Key": key["key"], "X-Forwarded-Uri": "/x", "X-Forwarded-Method": "GET"}
            return httpx.get(f"{served.url}/v1/authorize", headers=headers)

        wait_for("the key", lambda: ask().status_code != 401, SOON_S)
        wait_for("its own limit", lambda: ask().status_code == 429, SOON_S)
        used = wait_for("its last use", lambda: admin.get(f"/keys/{key['id']}").json()["last_used"], SOON_S)
        assert used.endswith("Z")
        admin.post(f"/keys/{key['id']}:revoke")
        wait_for("its end", lambda: ask().status_code == 401, SOON_S)


def test_the_first_token_is_printed_once_and_everything_is_there_after_a_restart(served: Serve) -> None:
    token = served.token
    with served.admin() as admin:
        admin.put("/rules/mine", json={"name": "mine", "by": "global", "limit": "9/hour"})
    served.kill9()
    served.start()
    with served.admin() as admin:
        assert admin.get("/rules/mine").json()["limit"] == "9/hour"
    assert served.log().count("HEADGATE_TOKEN=") == 1
    assert served.log().count(token) == 1
    assert json.loads(httpx.get(f"{served.url}/readyz").text)["rules"] == 5
    assert served.stop() == 0


def test_secrets_are_the_owners_alone(served: Serve) -> None:
    for name in ("headgate.db", "headgate.db.secret"):
        assert stat.S_IMODE(os.stat(served.folder / name).st_mode) == 0o600


def test_a_rules_file_is_the_truth_whenever_it_changes(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules:\n  - {name: a, by: user, limit: 1/hour}\n")
    served = Serve(tmp_path / "served", "--rules", str(rules), "--rules-poll-s", "0.1")
    with served, served.admin() as admin:
        admin.put("/rules/b", json={"name": "b", "by": "global", "limit": "9/hour"})
        rules.write_text("rules:\n  - {name: a, by: user, limit: 2/hour}\n")
        wait_for("the file", lambda: names(admin) == ["a"], SOON_S, served.log)
        assert admin.get("/rules/a").json()["limit"] == "2/hour"
        (newest,) = admin.get("/versions", params={"limit": 1}).json()["items"]
        assert (newest["who"], str(rules) in newest["why"]) == ("headgate serve", True)
        rules.write_text("rules:\n  - {name: a, by: user, limit: nonsense}\n")
        wait_for("the mistake", lambda: httpx.get(f"{served.url}/readyz").json()["rules_error"], SOON_S)
        assert admin.get("/rules/a").json()["limit"] == "2/hour"


def names(admin: httpx.Client) -> list[str]:
    return [rule["name"] for rule in admin.get("/rules").json()["items"]]


def test_without_a_database_it_is_a_node_alone(tmp_path: Path) -> None:
    with Serve(tmp_path / "alone", "--database", "") as node:
        assert check(node, user="1")["allowed"]
        assert httpx.get(f"{node.url}/api/v1/rules").status_code == 404
        assert not (node.folder / "headgate.db").exists()


class TestTheDoor:
    """What is handed to the control plane, and how."""

    def test_an_upload_far_beyond_a_nodes_own_bound_comes_through(self, served: Serve) -> None:
        lines = "\n".join(json.dumps({"name": f"r{n}", "by": "user", "limit": "5/minute"}) for n in range(20_000))
        assert len(lines) > 16 * 65_536
        with served.admin() as admin:
            headers = {"Content-Type": "application/x-ndjson"}
            applied = admin.post("/apply", content=lines, headers=headers)
            assert applied.json()["created"] == 20_000, applied.text

            def chunks() -> Iterator[bytes]:
                yield from (line.encode() + b"\n" for line in lines.split("\n")[:100])

            applied = admin.post("/apply", content=chunks(), headers=headers)
            assert applied.json()["unchanged"] == 100

    def test_a_connection_answers_checks_until_it_asks_the_control_plane(self, served: Serve) -> None:
        connection = http.client.HTTPConnection(HOST, served.port, timeout=30)
        for _ in range(2):
            connection.request("POST", "/v1/check", body='{"user": "1"}')
            assert json.loads(connection.getresponse().read())["allowed"]
        connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {served.token}"})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("connection")) == (200, "close")
        connection.close()

    def test_what_is_sent_behind_a_request_is_nobodys(self, served: Serve) -> None:
        smuggled = "GET /api/v1/rules HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + served.token + "\r\n\r\n"
        with socket.create_connection((HOST, served.port), timeout=30) as raw:
            raw.sendall(("GET /api/v1/me HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled).encode())
            answers = b""
            while piece := raw.recv(65_536):
                answers += piece
        assert answers.count(b"HTTP/1.1 ") == 1
        assert b" 401 " in answers.split(b"\r\n")[0]

    @pytest.mark.parametrize(
        "head", ["Content-Length: 3\r\nContent-Length: 4", "Transfer-Encoding: x\r\nContent-Length: 3"]
    )
    def test_what_could_be_read_two_ways_is_not_handed_on(self, served: Serve, head: str) -> None:
        with socket.create_connection((HOST, served.port), timeout=30) as raw:
            raw.sendall(f"POST /api/v1/rules HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\nabc".encode())
            assert raw.recv(65_536).startswith(b"HTTP/1.1 400 ")

    def test_the_record_of_calls_names_the_peer_and_not_what_it_says_it_is(self, served: Serve) -> None:
        with served.admin() as admin:
            admin.put("/tiers/x", json={"name": "x"}, headers={"X-Forwarded-For": "198.51.100.1"})
            calls = wait_for("the record", lambda: admin.get("/calls").json()["items"], SOON_S)
        assert {call["address"] for call in calls} == {HOST}

    def test_with_an_admin_address_the_control_plane_answers_only_there(self, tmp_path: Path) -> None:
        with Serve(tmp_path / "served", "--admin", f"{HOST}:0") as served:
            headers = {"Authorization": f"Bearer {served.token}"}
            assert httpx.get(f"{served.url}/api/v1/me", headers=headers).status_code == 404
            assert httpx.get(f"http://{served.ready['admin']}/api/v1/me", headers=headers).status_code == 200
