"""What every route answers, through both kinds of door."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.answers import fields
from tests.integration.conftest import Starter
from tests.integration.http_node import Node

POSTS = ["/v1/check", "/v1/checks", "/v1/limit"]
GETS = ["/healthz", "/readyz", "/metrics"]


def post(client: httpx.Client, path: str, body: Any) -> Any:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def test_a_check_is_always_200_with_the_decision(node: Node) -> None:
    client = node.client()
    answers = [post(client, "/v1/check", {"user": "42"}) for _ in range(6)]
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False]
    assert [answer["remaining"] for answer in answers] == [4, 3, 2, 1, 0, 0]
    first, last = answers[0], answers[5]
    assert (first["limit"], first["retry_after"], first["status"]) == (5, 0, 200)
    assert (first["rule"], first["path"], first["degraded"]) == ("per-user", "store", False)
    assert (last["limit"], last["retry_after"], last["status"]) == (5, 60, 429)
    assert [result["rule"] for result in last["results"]] == ["per-user"]


def test_waiting_as_long_as_told_is_enough(node: Node) -> None:
    client = node.client()
    post(client, "/v1/check", {"user": "42", "cost": 5})
    refused = post(client, "/v1/check", {"user": "42"})
    node.clock.advance(refused["retry_after"])
    assert post(client, "/v1/check", {"user": "42"})["allowed"]


def test_the_answer_is_the_engines_own(node: Node) -> None:
    facts: dict[str, Any] = {
        "user": "42",
        "api_key": 7,
        "org": 7,
        "ip": "2001:db8::1",
        "tier": "gold",
        "method": "GET",
        "path": "/a/b",
        "region": "eu",
        "descriptors": {"plan": "x", "seats": "9"},
        "cost": 2,
    }
    expected = node.engine.peek(**facts).to_json()
    assert node.client().post("/v1/check", json=facts).text == expected
    assert node.remaining() == 3


def test_a_block_and_no_rule_are_told_apart(node: Node) -> None:
    client = node.client()
    blocked = post(client, "/v1/check", {"user": "mallory"})
    assert (blocked["allowed"], blocked["path"], blocked["rule"]) == (False, "blocked", "banned")
    assert (blocked["status"], blocked["retry_after"], blocked["results"]) == (403, None, [])
    node.engine.load_rules('{"rules": []}')
    unruled = post(client, "/v1/check", {})
    assert (unruled["allowed"], unruled["path"]) == (True, "no_rule")
    assert (unruled["rule"], unruled["limit"], unruled["remaining"]) == (None, None, None)


def test_when_one_limit_refuses_none_is_spent(node: Node) -> None:
    client = node.client()
    for _ in range(2):
        assert post(client, "/v1/check", {"user": "1", "org": "acme"})["allowed"]
    refused = post(client, "/v1/check", {"user": "2", "org": "acme"})
    assert (refused["allowed"], refused["rule"]) == (False, "per-org")
    assert {result["rule"]: result["allowed"] for result in refused["results"]} == {"per-user": True, "per-org": False}
    assert node.remaining("2") == 5


def test_cost_0_peeks_and_an_impossible_cost_names_no_time(node: Node) -> None:
    client = node.client()
    assert post(client, "/v1/check", {"user": "42", "cost": 0})["remaining"] == 5
    never = post(client, "/v1/check", {"user": "42", "cost": 6})
    assert (never["allowed"], never["retry_after"], never["status"]) == (False, None, 429)
    assert post(client, "/v1/check", {"user": "42", "cost": 10**12})["retry_after"] is None
    assert node.remaining() == 5


def test_null_is_the_same_as_absent_and_a_number_the_same_as_its_text(node: Node) -> None:
    client = node.client()
    post(client, "/v1/check", {"user": 42, "org": None, "cost": None, "descriptors": None})
    assert node.remaining("42") == 4


def test_a_list_is_decided_in_order(node: Node) -> None:
    asked = [{"user": "1", "cost": 4}, {"user": "1", "cost": 2}, {"user": "1"}, {"user": "2"}, {"user": "1"}]
    answers = post(node.client(), "/v1/checks", asked)
    assert [answer["allowed"] for answer in answers] == [True, False, True, True, False]
    assert [answer["remaining"] for answer in answers] == [1, 1, 0, 4, 0]


def test_a_list_may_be_empty_or_1000_long(node: Node) -> None:
    client = node.client()
    assert post(client, "/v1/checks", []) == []
    answers = post(client, "/v1/checks", [{"user": "1"}] * 1_000)
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False] * 995


def test_a_plain_limit_takes_a_number_with_a_window_or_a_text(node: Node) -> None:
    client = node.client()
    numbers = post(client, "/v1/limit", {"key": "k", "limit": 5, "window": 60})
    assert (numbers["allowed"], numbers["limit"], numbers["remaining"]) == (True, 5, 4)
    assert (numbers["rule"], numbers["retry_after"], numbers["reset_after"]) == (None, 0, 60)
    for same in ({"limit": "5/minute"}, {"limit": 5, "window": "1 minute"}, {"limit": 5, "window": 60.0}):
        numbers = post(client, "/v1/limit", {"key": "k"} | same)
    assert numbers["remaining"] == 1
    other = post(client, "/v1/limit", {"key": "other", "limit": 5, "window": 60, "cost": 5})
    assert (other["allowed"], other["remaining"]) == (True, 0)


def test_a_plain_limit_may_be_several_and_then_all_must_allow(node: Node) -> None:
    client = node.client()
    body = {"key": "k", "limit": "2/second;3/minute", "cost": 2}
    assert post(client, "/v1/limit", body)["allowed"]
    node.clock.advance(1.0)
    refused = post(client, "/v1/limit", body)
    assert [result["allowed"] for result in refused["results"]] == [True, False]
    assert [result["remaining"] for result in post(client, "/v1/limit", body | {"cost": 0})["results"]] == [2, 1]


@pytest.mark.parametrize("algorithm", ["sliding_window", "gcra", "token_bucket", "fixed_window", "sliding_log"])
def test_a_plain_limit_takes_any_algorithm(run: Starter, algorithm: str) -> None:
    body = {"key": "k", "limit": 2, "window": "1h", "algorithm": algorithm}
    client = run().client()
    assert [post(client, "/v1/limit", body)["allowed"] for _ in range(3)] == [True, True, False]


def test_a_plain_limit_takes_a_burst(node: Node) -> None:
    body = {"key": "k", "limit": 1, "window": 1, "burst": 3}
    client = node.client()
    assert [post(client, "/v1/limit", body)["allowed"] for _ in range(4)] == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/check", {"user": "42", "cost": 3}), ("/v1/limit", {"key": "k", "limit": 5, "window": 60, "cost": 3})],
)
def test_headers_and_body_for_the_client_come_when_asked_for(node: Node, path: str, body: Any) -> None:
    client = node.client()
    assert "headers" not in post(client, path + "?headers=false", body | {"cost": 0})
    allowed = post(client, path + "?headers=true", body)
    assert allowed["body"] is None
    assert allowed["headers"]["X-RateLimit-Remaining"] == "2"
    assert "Retry-After" not in allowed["headers"]
    assert [item["r"] for item in fields(allowed["headers"]["RateLimit"]).values()] == [2]
    refused = post(client, path + "?headers=true", body)
    assert int(refused["headers"]["Retry-After"]) >= 60
    assert refused["body"]["error"] == "Rate limit exceeded"
    assert refused["body"]["retry_after"] == int(refused["headers"]["Retry-After"])


def test_headers_come_with_each_of_a_list(node: Node) -> None:
    answers = post(node.client(), "/v1/checks?headers=true", [{"user": "1"}, {"user": "mallory"}])
    assert answers[0]["headers"]["X-RateLimit-Limit"] == "5"
    assert answers[1]["body"]["error"]


def test_a_query_that_means_nothing_is_told(node: Node) -> None:
    for query, name in (("headers=1", "headers"), ("header=true", "header"), ("headers=true&x=%00", "x")):
        response = node.client().post("/v1/check?" + query, json={"user": "42"})
        assert (response.status_code, response.json()["field"]) == (400, name)
    assert node.remaining() == 5


def test_health_is_an_empty_200(node: Node) -> None:
    response = node.client().get("/healthz")
    assert (response.status_code, response.content) == (200, b"")


def test_readiness_tells_the_rules_and_the_last_error(node: Node) -> None:
    client = node.client()
    before = client.get("/readyz")
    assert (before.status_code, before.headers["content-type"]) == (200, "application/json")
    version = node.engine.rules_version()
    well = {"rules_error": None, "tls_error": None, "identity_error": None, "feed": None, "store": None}
    assert before.json() == {"ready": True, "rules": 3, "rules_version": version} | well
    node.server.set_rules_error('rules.yaml:5: "often" \n is no limit\\')
    broken = client.get("/readyz")
    assert (broken.status_code, broken.json()["ready"]) == (200, True)
    assert broken.json()["rules_error"] == 'rules.yaml:5: "often" \n is no limit\\'
    node.server.set_rules_error(None)
    node.engine.remove_rule("banned")
    assert client.get("/readyz").json() == {"ready": True, "rules": 2, "rules_version": version + 1} | well


def test_metrics_are_prometheus_text_and_count_what_happened(node: Node) -> None:
    client = node.client()
    for user in ["42"] * 6 + ["mallory"]:
        post(client, "/v1/check", {"user": user})
    client.post("/v1/check", content=b"{")
    client.get("/nowhere")
    node.server.set_rules_error("broken")
    assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = node.metrics()
    assert samples['headgate_decisions_total{path="store",allowed="true"}'] == 5
    assert samples['headgate_decisions_total{path="store",allowed="false"}'] == 1
    assert samples['headgate_decisions_total{path="blocked",allowed="false"}'] == 1
    assert samples['headgate_rule_decisions_total{group="per-user",outcome="refused"}'] == 1
    assert samples['headgate_rule_decisions_total{group="banned",outcome="refused"}'] == 1
    assert samples['headgate_http_requests_total{route="/v1/check",status="200"}'] == 7
    assert samples['headgate_http_requests_total{route="/v1/check",status="400"}'] == 1
    assert samples['headgate_http_requests_total{route="other",status="404"}'] == 1
    assert samples["headgate_rules_reload_errors_total"] == 1
    assert samples["headgate_rules"] == 3
    assert samples["headgate_keys"] == 1


def test_metrics_stay_prometheus_text_whatever_a_group_is_called(run: Starter) -> None:
    names = ['say "no"', "back\\slash", "ümlaut", "{a=b}"]
    rules = [{"name": name, "by": "user", "limit": "5/minute", "match": {"user": name}} for name in names]
    node = run(rules=rules)
    node.client().post("/v1/checks", json=[{"user": name} for name in names])
    counted = [value for name, value in node.metrics().items() if name.startswith("headgate_rule_decisions_total")]
    assert sum(counted) == len(names)


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/check/", "/v1/Check", "//v1/check", "/v1/%63heck", "/metricsz"])
def test_an_unknown_path_is_a_404_that_lists_the_routes(run: Starter, path: str) -> None:
    node = run()
    for method in ("GET", "POST"):
        with node.connect() as wire:
            wire.ask(method, path, '{"user":"42"}')
            reply = wire.reply()
        assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
        assert all(route in reply.json()["detail"] for route in POSTS + GETS)
    assert node.remaining() == 5


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "post", "BREW"])
@pytest.mark.parametrize("path", POSTS)
def test_what_decides_takes_posts_only(run: Starter, method: str, path: str) -> None:
    node = run()
    with node.connect() as wire:
        wire.ask(method, path, '{"user":"42"}')
        reply = wire.reply(method)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert reply.headers["content-type"] == "application/problem+json"
    assert node.decided() == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", GETS)
def test_what_tells_takes_gets_only(run: Starter, method: str, path: str) -> None:
    response = run().client().request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
    assert response.json()["status"] == 405


@pytest.mark.parametrize("path", GETS)
def test_head_answers_as_get_would_without_the_body(node: Node, path: str) -> None:
    with node.connect() as wire:
        wire.ask("HEAD", path)
        head = wire.reply("HEAD")
        wire.ask("GET", "/readyz")
        assert wire.reply().json()["ready"]
    whole = node.client().get(path)
    assert head.status == whole.status_code == 200
    assert head.headers.get("content-type") == whole.headers.get("content-type")
    # Metrics change with every request, and the length of nothing may be left out.
    assert path != "/readyz" or head.headers["content-length"] == whole.headers["content-length"]


def test_both_doors_share_counters_and_the_socket_file_is_the_owners_and_groups(run: Starter, tmp_path: Path) -> None:
    path = tmp_path / "hg.sock"
    node = run(uds=str(path))
    assert node.server.addresses()["uds"] == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    post(node.client(), "/v1/check", {"user": "42"})
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path), verify=False), base_url="http://node") as client:
        assert post(client, "/v1/check", {"user": "42"})["remaining"] == 3
    assert node.server.drain(30.0)
    assert not path.exists()
