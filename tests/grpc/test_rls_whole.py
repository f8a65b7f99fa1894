"""Descriptors that are matched and counted whole (SEMANTICS 7.4), beside rules that match facts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headgate import Limiter
from headgate._core import Server as NodeServer
from tests.grpc.client import Client, Descriptor, by, first_address
from tests.grpc.conftest import Asking
from tests.integration.http_node import PATIENCE_S
from tests.servers.server import Server

SECRET = "very-secret-token"


def whole(name: str, *entries: str, **fields: Any) -> dict[str, Any]:
    """`key=value`, or a key alone."""
    pairs = [entry.partition("=") for entry in entries]
    written = [{"key": key} | ({"value": value} if value else {}) for key, _, value in pairs]
    rule = {"name": name, "match": {"descriptor_exact": {"domain": "d", "entries": written}}}
    limited = {} if fields.get("action") in ("block", "allow") else {"limit": "3/hour", "algorithm": "fixed_window"}
    return rule | limited | fields


def test_a_whole_descriptor_and_its_facts_are_limited_together(asking: Asking) -> None:
    client = asking(whole("whole", "user"), {"name": "fact", "by": "user", "limit": "2/hour"})
    asked = [client.ask(by(user="7"), domain="d") for _ in range(3)]
    assert [(answer.code, answer.statuses[0].rule) for answer in asked] == [
        ("OK", "fact"),
        ("OK", "fact"),
        ("OVER_LIMIT", "fact"),
    ]
    # The refused call spent nothing of the other either.
    assert client.ask(by(user="7", hits=0), domain="d").code == "OK"
    assert client.ask(by(user="8", method="GET"), domain="d").statuses[0].rule == "fact"


def test_an_operators_block_goes_before_a_whole_descriptor_that_is_let_pass(asking: Asking) -> None:
    bad = {"name": "bad", "match": {"user": "7"}, "action": "block"}
    client = asking(whole("free", "user", action="allow"), bad)
    assert client.ask(by(user="8"), domain="d").code == "OK"
    assert client.ask(by(user="7"), domain="d").code == "OVER_LIMIT"


def test_a_descriptor_with_a_limit_of_its_own_is_not_looked_up(asking: Asking) -> None:
    client = asking(whole("none", "k", action="block"), whole("k2", "k2", replaces="none"))
    assert client.ask(by(limit=(1, "HOUR"), k="v"), domain="d").code == "OK"
    assert client.ask(by(limit=(1, "HOUR"), k="v"), domain="d").code == "OVER_LIMIT"
    assert client.ask(by(k="v"), by(limit=(9, "HOUR"), k2="v"), domain="d").code == "OVER_LIMIT"
    assert client.ask(by(k="v"), by(k2="v"), domain="d").code == "OK"


def test_a_blocked_whole_descriptor_answers_with_its_rules_status_and_name(asking: Asking) -> None:
    client = asking(whole("none", "k", action="block", response={"status": 429, "message": "not you"}))
    answer = client.ask(by(k="v"), domain="d")
    assert (answer.code, answer.headers["x-headgate-rule"]) == ("OVER_LIMIT", "none")
    assert "not you" in answer.body.decode()


def test_no_text_of_a_client_passes_for_another_descriptor(asking: Asking) -> None:
    client = asking(whole("one", "a"), whole("two", "a", "b"))
    for entries in ([("a", "1,b=2")], [("a", "1"), ("b", "2")], [("a", "1\\"), ("b", "2")]):
        assert client.ask(Descriptor(entries), domain="d").remaining == [2], entries


@pytest.fixture
def shared() -> Iterator[Server]:
    with Server() as store:
        yield store


def test_nodes_count_whole_descriptors_together_under_readable_names(shared: Server) -> None:
    rules = [whole("few", "path", "user"), whole("token", "authorization")]
    nodes = []
    for _ in range(2):
        limiter = Limiter(rules, store=shared.url, store_deadline=PATIENCE_S)
        server = NodeServer(limiter, listen="127.0.0.1:0", threads=1)
        server.start()
        nodes.append((server, Client(first_address(server))))
    call = Descriptor([("path", "/a/b"), ("user", "7")])
    asked = [client.ask(call, domain="d") for _, client in (*nodes, *nodes)]
    assert [answer.code for answer in asked] == ["OK", "OK", "OK", "OVER_LIMIT"]
    nodes[0][1].ask(by(authorization=SECRET), domain="d")
    for server, client in nodes:
        client.close()
        server.drain(0.0)
    keys = [key.decode() for key in shared.command("KEYS", "hg1:*")]
    assert "hg1:{descriptor:d,path=/a/b,user=7}" in keys
    assert SECRET not in json.dumps(keys)
