"""Forward auth as a proxy meets it, and the doors a node has."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import Starter
from tests.integration.http_node import PATIENCE_S, Node

RULES = [
    {"name": "login", "match": {"endpoint": "/login", "method": "POST"}, "by": ["ip", "endpoint"], "limit": "2/minute"},
    {"name": "bad", "match": {"ip": "203.0.113.0/24"}, "action": "block"},
    {"name": "teapot", "match": {"endpoint": "/tea"}, "by": "ip", "limit": "1/minute", "response": {"status": 418}},
]
LOGIN = {"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/login?next=/", "X-Forwarded-For": "198.51.100.7"}


@pytest.fixture
def client(run: Starter) -> httpx.Client:
    return run(rules=RULES).client()


def at(node: Node, door: str) -> httpx.Client:
    """A client of one of several doors."""
    node.clients.append(httpx.Client(base_url=f"http://{node.server.addresses()[door]}", timeout=PATIENCE_S))
    return node.clients[-1]


def test_a_request_passes_until_its_limit_and_then_is_refused_with_all_that_a_client_needs(
    client: httpx.Client,
) -> None:
    passed = [client.get("/v1/authorize", headers=LOGIN) for _ in range(2)]
    assert [(answer.status_code, answer.content) for answer in passed] == [(200, b"")] * 2
    assert [answer.headers["x-ratelimit-remaining"] for answer in passed] == ["1", "0"]
    assert passed[0].headers["x-headgate-rule"] == "login"
    refused = client.get("/v1/authorize", headers=LOGIN)
    assert (refused.status_code, refused.headers["x-headgate-status"]) == (429, "429")
    assert refused.headers["x-headgate-rule"] == "login"
    assert refused.headers["content-type"] == "application/json"
    assert refused.json() == {"error": "Rate limit exceeded", "retry_after": int(refused.headers["retry-after"])}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_the_proxy_may_ask_with_any_method(client: httpx.Client, method: str) -> None:
    nginx = {"X-Original-Method": "POST", "X-Original-URI": "/login", "X-Forwarded-For": "198.51.100.9"}
    answers = [client.request(method, "/v1/authorize", headers=nginx) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert bool(answers[2].content) == (method != "HEAD")


def test_a_proxy_that_knows_few_statuses_names_the_one_it_wants(client: httpx.Client) -> None:
    blocked = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Uri": "/"}
    assert client.get("/v1/authorize", headers=blocked).status_code == 403
    tea = {"X-Forwarded-Uri": "/tea", "X-Forwarded-For": "198.51.100.7"}
    plain = [client.get("/v1/authorize", headers=tea) for _ in range(2)][1]
    told = client.get("/v1/authorize?deny_status=403", headers=tea)
    assert (plain.status_code, plain.headers["x-headgate-status"]) == (418, "418")
    assert (told.status_code, told.headers["x-headgate-status"]) == (403, "418")
    assert plain.content == told.content


def test_a_status_of_a_rule_is_not_counted_as_a_mistake_of_ours(run: Starter) -> None:
    node = run(rules=RULES)
    for _ in range(2):
        node.client().get("/v1/authorize", headers={"X-Forwarded-Uri": "/tea"})
    counted = {sample: count for sample, count in node.metrics().items() if "/v1/authorize" in sample}
    name = 'headgate_http_requests_total{route="/v1/authorize",status="%s"}'
    assert counted == {name % "200": 1, name % "other": 1}


@pytest.mark.parametrize(
    "query", ["deny_status=200", "deny_status=x", "deny_status", "deny_satus=403", "deny_status=600"]
)
def test_a_query_that_means_nothing_is_told_and_nothing_is_counted(client: httpx.Client, query: str) -> None:
    wrong = client.get(f"/v1/authorize?{query}", headers=LOGIN)
    assert (wrong.status_code, wrong.json()["field"]) == (400, query.partition("=")[0])
    assert client.get("/v1/authorize", headers=LOGIN).headers["x-ratelimit-remaining"] == "1"


@pytest.mark.parametrize(
    "more",
    [{"X-Original-URI": "/free"}, {"X-Original-Method": "GET"}],
    ids=["path", "method"],
)
def test_a_client_that_sends_the_other_family_is_not_counted_as_something_else(
    client: httpx.Client, more: dict[str, str]
) -> None:
    refused = client.get("/v1/authorize", headers=LOGIN | more)
    assert refused.status_code == 400
    assert "remove" in refused.json()["detail"]


def test_an_empty_header_is_as_good_as_none(client: httpx.Client) -> None:
    empty = {"X-Original-URI": "", "X-Original-Method": "", "Authorization": "", "X-API-Key": ""}
    assert client.get("/v1/authorize", headers=LOGIN | empty).headers["x-headgate-rule"] == "login"


def test_headers_and_bodies_are_as_the_settings_say(run: Starter) -> None:
    client = run(rules=RULES, families=["ietf"], problem_body=True, jitter=0.0).client()
    answers = [client.get("/v1/authorize", headers=LOGIN) for _ in range(3)]
    assert {"ratelimit", "ratelimit-policy"} <= set(answers[0].headers)
    assert not [name for name in answers[2].headers if name.startswith("x-ratelimit")]
    assert answers[2].headers["content-type"] == "application/problem+json"
    assert (answers[2].json()["status"], answers[2].headers["retry-after"]) == (429, "60")


def test_health_and_metrics_are_told_at_the_admin_address_and_nowhere_else(run: Starter) -> None:
    node = run(rules=RULES, admin="127.0.0.1:0")
    traffic, admin = at(node, "http"), at(node, "admin")
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (admin.get(path).status_code, traffic.get(path).status_code) == (200, 404)
    assert traffic.post("/v1/check", json={}).status_code == 200
    assert admin.post("/v1/check", json={}).status_code == 404
    assert admin.get("/v1/authorize", headers=LOGIN).status_code == 404


def test_a_node_that_is_full_can_still_say_so(run: Starter) -> None:
    node = run(rules=RULES, admin="127.0.0.1:0", max_connections=2)
    taken = [node.connect() for _ in range(2)]
    for wire in taken:
        wire.ask("POST", "/v1/check", "{}")
        assert wire.reply().status == 200
    with node.connect() as wire:
        assert wire.rest().startswith(b"HTTP/1.1 503 ")
    metrics = at(node, "admin").get("/metrics").text
    assert "\nheadgate_connections_refused_total 1\n" in metrics


def test_every_address_has_its_name(run: Starter, tmp_path: Path) -> None:
    node = run(grpc="127.0.0.1:0", uds=str(tmp_path / "hg.sock"), admin="127.0.0.1:0")
    assert list(node.server.addresses()) == ["http", "grpc", "uds", "admin"]
    assert at(node, "grpc").post("/v1/check", json={}).status_code == 200
