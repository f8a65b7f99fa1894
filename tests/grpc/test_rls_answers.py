"""What Envoy is to pass on to the client: headers, and the body of a refusal."""

from __future__ import annotations

import json

from tests.answers import fields
from tests.grpc.client import Client, Descriptor, by
from tests.grpc.conftest import Asking

LOGIN = {"name": "login", "by": "user", "limit": "5/minute"}


def refused(client: Client, **entries: str) -> tuple[dict[str, str], bytes]:
    for _ in range(100):
        answer = client.ask(Descriptor(entries))
        if answer.code == "OVER_LIMIT":
            return answer.headers, answer.body
    raise AssertionError("nothing was refused")


def test_an_allowed_call_has_the_rate_headers_and_no_body(asking: Asking) -> None:
    answer = asking(LOGIN).ask(by(user="42"))
    assert answer.body == b""
    assert answer.headers["x-ratelimit-limit"] == "5"
    assert answer.headers["x-ratelimit-remaining"] == "4"
    assert answer.headers["x-ratelimit-reset"] == "60"
    assert fields(answer.headers["ratelimit-policy"]) == {"login": {"q": 5, "w": 60}}
    assert fields(answer.headers["ratelimit"])["login"]["r"] == 4
    assert "retry-after" not in answer.headers
    assert "x-headgate-rule" not in answer.headers


def test_a_refusal_names_the_rule_and_the_time_in_headers_and_body_alike(asking: Asking) -> None:
    headers, body = refused(asking(LOGIN), user="42")
    assert headers["x-headgate-rule"] == "login"
    assert headers["x-ratelimit-remaining"] == "0"
    assert headers["x-ratelimit-retry-after"] == headers["retry-after"]
    assert 60 <= int(headers["retry-after"]) <= 66
    assert json.loads(body) == {"error": "Rate limit exceeded", "retry_after": int(headers["retry-after"])}
    assert headers["content-type"] == "application/json"


def test_headers_speak_of_the_binding_limit_of_the_whole_call(asking: Asking) -> None:
    client = asking(LOGIN, {"name": "org", "by": "org", "limit": "1000/hour"})
    answer = client.ask(by(org="acme"), by(user="42"))
    assert answer.headers["x-ratelimit-limit"] == "5"
    assert set(fields(answer.headers["ratelimit-policy"])) == {"login", "org"}


def test_a_rules_own_words_are_passed_on(asking: Asking) -> None:
    response = {"message": "Slow down, please", "retry_after": 300}
    headers, body = refused(asking(LOGIN | {"response": response}), user="42")
    assert headers["retry-after"] == "300"
    assert json.loads(body) == {"error": "Slow down, please", "retry_after": 300}


def test_a_rule_name_beyond_ascii_makes_headers_a_proxy_can_send(asking: Asking) -> None:
    headers, _ = refused(asking(LOGIN | {"name": "größe limit"}), user="42")
    for name, value in headers.items():
        assert value.isascii(), name
        assert value.isprintable(), name


def test_a_shadow_rule_shows_in_no_header(asking: Asking) -> None:
    assert asking(LOGIN | {"action": "shadow"}).ask(by(user="42")).headers == {}
