"""Calls decided by a shared store, and what is said when it is away (SEMANTICS 5.1)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate import Limiter
from headgate._core import Server as NodeServer
from tests.grpc.client import Answer, Client, by, first_address
from tests.integration.http_node import eventually
from tests.servers.server import Server

PER_USER = {"name": "per-user", "by": "user", "limit": "5/hour"}
PER_ORG = {"name": "per-org", "by": "org", "limit": "2/hour"}
DEADLINE_S = 5.0
Starter = Callable[..., Client]


@pytest.fixture
def store() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def node(store: Server) -> Iterator[Starter]:
    """A node of its own on the shared store."""
    started: list[tuple[NodeServer, Client]] = []

    def starter(*rules: dict[str, Any], deadline_s: float = DEADLINE_S, **options: Any) -> Client:
        limiter = Limiter(list(rules), store=store.url, store_deadline=deadline_s, **options)
        server = NodeServer(limiter, listen="127.0.0.1:0", threads=1)
        server.start()
        started.append((server, Client(first_address(server))))
        return started[-1][1]

    yield starter
    for server, client in started:
        client.close()
        server.drain(0.0)


def test_nodes_count_together(node: Starter) -> None:
    one, other = node(PER_USER), node(PER_USER)
    answers = [asked.ask(by(user="42")) for asked in (one, other, one, other, one, other)]
    assert [answer.remaining for answer in answers] == [[4], [3], [2], [1], [0], [0]]
    assert answers[5].code == "OVER_LIMIT"


def test_one_refused_descriptor_refuses_the_call_and_nothing_is_spent(node: Starter) -> None:
    client = node(PER_USER, PER_ORG)
    answers = [client.ask(by(user="42"), by(org="acme")) for _ in range(3)]
    assert [answer.codes for answer in answers] == [["OK", "OK"], ["OK", "OK"], ["OK", "OVER_LIMIT"]]
    assert client.ask(by(user="42", hits=0)).remaining == [3]


def test_a_subject_met_twice_is_counted_once_with_the_largest_addend(node: Starter) -> None:
    client = node(PER_USER)
    client.ask(by(user="42", hits=1), by(user="42", hits=3), by(user="42", hits=0))
    assert client.ask(by(user="42", hits=0)).remaining == [2]


def test_a_descriptors_own_addend_of_nought_only_looks(node: Starter) -> None:
    client = node(PER_USER, PER_ORG)
    assert client.ask(by(user="42", hits=0), by(org="acme")).remaining == [5, 1]
    assert client.ask(by(user="42", hits=0)).remaining == [5]


def test_a_limit_that_comes_along_is_shared_by_nodes(node: Starter) -> None:
    one, other = node(PER_USER), node(PER_USER)
    own = by(user="42", limit=(2, "HOUR"))
    assert [client.ask(own, domain="edge").code for client in (one, other, one)] == ["OK", "OK", "OVER_LIMIT"]


def test_refusals_remembered_by_the_node_are_told_as_the_store_told_them(node: Starter) -> None:
    client = node(PER_USER, PER_ORG)
    answers = [client.ask(by(user="42"), by(org="acme")) for _ in range(6)]
    assert [answer.code for answer in answers] == ["OK"] * 2 + ["OVER_LIMIT"] * 4
    assert {answer.remaining[1] for answer in answers[2:]} == {0}
    assert {answer.statuses[1].rule for answer in answers} == {"per-org"}
    assert client.ask(by(user="42", hits=0)).remaining == [3]


def test_many_calls_at_once_admit_no_more_than_the_limit(node: Starter) -> None:
    client = node(PER_USER | {"limit": "50/hour"})
    request = client.request(by(user="42"), by(user="42", path="/a")).SerializeToString()
    method = client.channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
    calls = [method.future(request, timeout=30.0) for _ in range(200)]
    codes = [client.answer(call.result()).code for call in calls]
    assert codes.count("OK") == 50


@pytest.mark.parametrize(("policy", "code"), [("closed", "OVER_LIMIT"), ("open", "OK"), ("local", "OK")])
def test_without_its_store_a_node_answers_by_policy_and_never_with_an_error(
    node: Starter, store: Server, policy: str, code: str
) -> None:
    """Envoy takes an error for leave."""
    client = node(PER_USER | {"on_store_failure": policy})
    assert client.ask(by(user="42")).code == "OK"
    store.kill9()
    answers = [client.ask(by(user="42")) for _ in range(3)]
    assert {answer.code for answer in answers} == {code}
    if policy == "closed":
        assert answers[-1].headers["retry-after"] == "1"
        assert json.loads(answers[-1].body)["retry_after"] == 1
        assert answers[-1].codes == ["OVER_LIMIT"]


def test_one_closed_rule_refuses_what_open_ones_would_let_through(node: Starter, store: Server) -> None:
    client = node(PER_USER | {"on_store_failure": "closed"}, PER_ORG | {"on_store_failure": "open"})
    client.ask(by(user="42"), by(org="acme"))
    store.kill9()
    answer = client.ask(by(org="acme"), by(user="42"))
    assert (answer.code, answer.codes) == ("OVER_LIMIT", ["OK", "OVER_LIMIT"])


def test_calls_waiting_for_a_store_that_hangs_are_answered_when_it_comes_back(node: Starter, store: Server) -> None:
    client = node(PER_USER, deadline_s=30.0)
    client.ask(by(user="42"))
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(client.ask(by(user="42"))))
    store.stop_signal()
    asking.start()
    assert client.health() == "SERVING"
    store.cont()
    asking.join(30.0)
    eventually(lambda: answers)
    assert answers[0].remaining == [3]


def test_past_the_most_in_flight_calls_are_answered_at_once_by_policy(node: Starter, store: Server) -> None:
    client = node(PER_USER | {"limit": "100/hour", "on_store_failure": "closed"}, deadline_s=60.0, max_in_flight=5)
    client.ask(by(user="42"))
    request = client.request(by(user="42")).SerializeToString()
    method = client.channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
    store.stop_signal()
    calls = [method.future(request, timeout=60.0) for _ in range(20)]
    eventually(lambda: sum(call.done() for call in calls) == 15)
    refused = [client.answer(call.result()) for call in calls if call.done()]
    assert {answer.code for answer in refused} == {"OVER_LIMIT"}
    store.cont()
    codes = [client.answer(call.result()).code for call in calls]
    assert (codes.count("OVER_LIMIT"), codes.count("OK")) == (15, 5)
