"""What is said of each descriptor, and that all are decided together (SEMANTICS 7)."""

from __future__ import annotations

from tests.grpc.client import Descriptor, Status, by
from tests.grpc.conftest import Asking, Rule
from tests.integration.http_node import Node

PER_USER: Rule = {"name": "per-user", "by": "user", "limit": "5/minute"}
PER_ORG: Rule = {"name": "per-org", "by": "org", "limit": "2/hour"}
PER_IP: Rule = {"name": "per-ip", "by": "ip", "limit": "100/second"}


def test_each_descriptor_has_a_status_in_the_order_they_were_sent(asking: Asking) -> None:
    client = asking(PER_USER, PER_ORG, PER_IP)
    answer = client.ask(by(org="acme"), by(plan="gold"), by(remote_address="198.51.100.7"), by(user="42"))
    assert answer.code == "OK"
    assert answer.statuses == [
        Status("OK", "per-org", 2, "HOUR", 1, 3600.0),
        Status("OK"),
        Status("OK", "per-ip", 100, "SECOND", 99, 1.0),
        Status("OK", "per-user", 5, "MINUTE", 4, 60.0),
    ]


def test_a_descriptor_no_rule_applies_to_is_ok_and_nothing_else(asking: Asking) -> None:
    answer = asking(PER_USER).ask(by(nothing="here"))
    assert (answer.code, answer.statuses) == ("OK", [Status("OK")])
    assert not answer.headers
    assert not answer.body


def test_what_remains_and_the_time_until_reset_follow_the_clock(asking: Asking, nodes: list[Node]) -> None:
    client = asking(PER_USER)
    client.ask(by(user="42"))
    nodes[0].clock.advance(10.0)
    [status] = client.ask(by(user="42", hits=0)).statuses
    assert (status.remaining, status.reset_s) == (4, 50.0)
    nodes[0].clock.advance(12.25)
    assert client.ask(by(user="42", hits=0)).statuses[0].reset_s == 37.75
    nodes[0].clock.advance(37.75)
    assert client.ask(by(user="42")).statuses[0].remaining == 4


def test_past_the_limit_the_descriptor_and_the_call_are_over_it(asking: Asking) -> None:
    client = asking(PER_USER)
    answers = [client.ask(by(user="42")) for _ in range(6)]
    assert [answer.code for answer in answers] == ["OK"] * 5 + ["OVER_LIMIT"]
    assert answers[5].statuses == [Status("OVER_LIMIT", "per-user", 5, "MINUTE", 0, 60.0)]


def test_one_refused_descriptor_refuses_the_call_and_nothing_is_spent(asking: Asking) -> None:
    client = asking(PER_USER, PER_ORG)
    for _ in range(2):
        client.ask(by(user="42"), by(org="acme"))
    answer = client.ask(by(user="42"), by(org="acme"))
    assert answer.code == "OVER_LIMIT"
    assert answer.statuses == [
        Status("OK", "per-user", 5, "MINUTE", 3, 60.0),
        Status("OVER_LIMIT", "per-org", 2, "HOUR", 0, 3600.0),
    ]
    assert client.ask(by(user="42", hits=0)).remaining == [3]


def test_a_descriptor_speaks_of_the_binding_limit_among_its_own(asking: Asking) -> None:
    client = asking(PER_USER | {"limit": ["100/second", "3/hour"]}, PER_ORG)
    both = client.ask(by(user="42", org="acme"), by(user="42"))
    assert [(status.rule, status.limit) for status in both.statuses] == [("per-org", 2), ("per-user", 3)]
    refused = client.ask(by(user="42", org="acme"), by(user="42", hits=90))
    assert refused.codes == ["OVER_LIMIT", "OVER_LIMIT"]
    assert [(status.rule, status.remaining) for status in refused.statuses] == [("per-user", 2), ("per-user", 2)]


def test_windows_are_told_in_envoys_units_where_there_is_one(asking: Asking) -> None:
    units = {"1s": "SECOND", "1m": "MINUTE", "1h": "HOUR", "1d": "DAY", "7d": "WEEK", "30d": "MONTH", "10s": "UNKNOWN"}
    client = asking(*({"name": window, "by": f"w{window}", "limit": f"7/{window}"} for window in units))
    for window, unit in units.items():
        [status] = client.ask(Descriptor({f"w{window}": "x"})).statuses
        assert (status.limit, status.unit) == (7, unit)


def test_a_bucket_tells_its_rate_and_what_is_left_of_its_burst(asking: Asking) -> None:
    client = asking(PER_USER | {"limit": "10/second burst 30"})
    assert client.ask(by(user="42"), hits=20).statuses == [Status("OK", "per-user", 10, "SECOND", 10, 2.0)]


def test_a_shadow_rule_counts_and_never_refuses(asking: Asking) -> None:
    client = asking(PER_USER | {"action": "shadow"}, PER_ORG | {"limit": "20/hour"})
    answers = [client.ask(by(user="42"), by(org="acme")) for _ in range(8)]
    assert {answer.code for answer in answers} == {"OK"}
    assert [answer.codes for answer in answers] == [["OK", "OK"]] * 8
    assert answers[7].remaining[1] == 12
    assert {answer.statuses[0].rule for answer in answers} == {None}


def test_a_block_rule_refuses_the_call_and_the_others_keep_what_they_have(asking: Asking) -> None:
    client = asking(PER_USER, {"name": "banned", "match": {"ip": "203.0.113.0/24"}, "action": "block"})
    answer = client.ask(by(user="42"), by(remote_address="203.0.113.9"))
    assert (answer.code, answer.codes) == ("OVER_LIMIT", ["OK", "OVER_LIMIT"])
    assert answer.headers["x-headgate-rule"] == "banned"
    assert client.ask(by(user="42", hits=0)).remaining == [5]


def test_an_allow_rule_exempts_the_descriptor_it_matches(asking: Asking) -> None:
    client = asking(PER_USER | {"limit": "1/minute"}, {"name": "ours", "match": {"user": "ops"}, "action": "allow"})
    assert [client.ask(by(user="ops")).statuses for _ in range(3)] == [[Status("OK")]] * 3
    client.ask(by(user="42"))
    assert client.ask(by(user="ops"), by(user="42")).codes == ["OK", "OVER_LIMIT"]


def test_a_rule_that_hides_what_remains_hides_it_here(asking: Asking) -> None:
    client = asking(PER_USER | {"response": {"hide_remaining": True}})
    answer = client.ask(by(user="42"))
    assert answer.statuses[0].remaining == 0
    assert answer.statuses[0].limit is None
    assert "x-ratelimit-remaining" not in answer.headers


def test_calls_and_http_share_counters(asking: Asking, nodes: list[Node]) -> None:
    client = asking(PER_USER)
    client.ask(by(user="42"))
    assert nodes[0].remaining("42") == 4
    assert nodes[0].client().post("/v1/check", json={"user": "42"}).json()["remaining"] == 3
    assert client.ask(by(user="42")).remaining == [2]


def test_where_no_rule_means_no_the_call_is_over_the_limit(asking: Asking) -> None:
    client = asking(PER_USER, engine={"no_rule": "deny"})
    assert client.ask(by(org="acme")).code == "OVER_LIMIT"
    assert client.ask(by(user="42")).code == "OK"
