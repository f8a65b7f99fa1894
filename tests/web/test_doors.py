"""What every framework's door promises, asked of each of them."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from headgate import Limiter
from headgate.identity import IdentityOptions
from headgate.testing import FakeClock
from tests.integration.tokens import NOW_S, SECRET, good
from tests.web.answers import CLIENT_IP, PIECES, Calls
from tests.web.doors import MAKERS, Maker

KEY_SECRET = b"a secret for the hashes of API keys"
API_KEY = "the value of a key"


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Maker:
    return MAKERS[request.param]


def limiter(*rules: dict[str, Any], **options: Any) -> Limiter:
    return Limiter(rules=list(rules), clock=FakeClock(start=NOW_S), **options)


def by(fact: str, limit: str = "2/minute", **more: Any) -> dict[str, Any]:
    return {"name": f"per-{fact}", "by": fact, "limit": limit, **more}


def left(counts: Limiter) -> int | None:
    return counts.peek(ip=CLIENT_IP, cost=0).remaining


def test_the_rules_decide_and_the_refusal_is_the_decisions_own(make: Maker) -> None:
    counts, calls = limiter(by("ip")), Calls()
    door = make(counts, calls, jitter=0)
    assert [door.ask().status for _ in range(2)] == [200, 200]
    refused = door.ask()
    decision = counts.peek(ip=CLIENT_IP, path="/api/items", method="GET")
    assert (refused.status, json.loads(refused.body)) == (429, decision.body(jitter=0))
    assert decision.headers(jitter=0).items() >= {"Retry-After": "60", "X-RateLimit-Remaining": "0"}.items()
    assert refused.headers["content-type"] == "application/json"
    for name, value in decision.headers(jitter=0).items():
        assert refused.headers[name.lower()] == value
    assert calls.paths == ["/api/items"] * 2


def test_an_answer_tells_what_is_left(make: Maker) -> None:
    door = make(limiter(by("ip", "5/minute")))
    assert [door.ask().headers["x-ratelimit-remaining"] for _ in range(3)] == ["4", "3", "2"]
    assert "retry-after" not in door.ask().headers


def test_problem_details_where_they_are_asked_for(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute")), problem=True)
    door.ask()
    refused = door.ask()
    assert refused.headers["content-type"] == "application/problem+json"
    assert json.loads(refused.body)["violated-policies"] == ["per-ip"]


def test_header_families_are_chosen(make: Maker) -> None:
    got = make(limiter(by("ip")), headers=["ietf"]).ask()
    assert "ratelimit" in got.headers
    assert "x-ratelimit-limit" not in got.headers


def test_a_block_answers_with_its_own_status(make: Maker) -> None:
    door = make(limiter({"name": "out", "match": {"ip": CLIENT_IP}, "action": "block"}))
    assert door.ask().status == 403


def test_a_status_that_has_no_name_is_answered(make: Maker) -> None:
    door = make(limiter({"name": "out", "match": {"ip": CLIENT_IP}, "action": "block", "response": {"status": 499}}))
    assert door.ask().status == 499


def test_what_has_no_route_is_counted_too(make: Maker) -> None:
    door = make(limiter(by("ip")))
    assert [door.ask("/nowhere").status for _ in range(3)] == [404, 404, 429]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_every_method_is_counted(make: Maker, method: str) -> None:
    door = make(limiter(by("ip", "1/minute")))
    assert door.ask(method=method).status == 200
    refused = door.ask(method=method)
    assert refused.status == 429
    assert refused.headers["retry-after"]
    assert bool(refused.body) == (method == "OPTIONS")


def test_rules_tell_methods_apart(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute", match={"method": "POST"})))
    assert [door.ask(method=method).status for method in ("POST", "GET", "GET")] != [429] * 3
    assert door.ask(method="GET").status == 200
    assert door.ask(method="POST").status == 429


# --- paths


@pytest.mark.parametrize("path", ["/healthz", "/healthz/", "/%68ealthz"])
def test_an_exempt_path_is_exempt_however_it_is_written(make: Maker, path: str) -> None:
    door = make(limiter(by("ip", "1/minute")), exempt=["/healthz"])
    for _ in range(3):
        got = door.ask(path)
        assert got.status != 429
        assert "ratelimit" not in got.headers


@pytest.mark.parametrize(
    "path", ["/static/../api/items", "/static/%2e%2e/api/items", "/staticapi", "/api/../static/x", "//static/x"]
)
def test_nothing_is_exempt_by_a_trick(make: Maker, path: str) -> None:
    door = make(limiter(by("ip", "1/minute")), exempt=["/static/*"])
    door.ask(path)
    assert door.ask(path).status == 429


def test_one_path_written_in_two_ways_is_one_endpoint(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute", match={"endpoint": "/api/items"})))
    assert door.ask("/api/items").status == 200
    for path in ("/api//items", "/api/./items", "/api/%69tems", "/api/x/../items", "/api/items/"):
        assert door.ask(path).status == 429, path


def test_a_query_is_no_part_of_the_path(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute", match={"endpoint": "/api/items"})))
    assert door.ask("/api/items?page=1").status == 200
    assert door.ask("/api/items?page=2").status == 429


def test_a_path_without_end_is_refused_and_not_an_error(make: Maker) -> None:
    assert make(limiter(by("ip"))).ask("/" + "a" * 9000).status == 414


def test_an_exempt_view_meets_no_rule(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute")))
    assert [door.ask("/free").status for _ in range(3)] == [200] * 3
    assert door.ask().headers["x-ratelimit-remaining"] == "0"


# --- who is asking


def test_addresses_are_counted_apart(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute")))
    assert [door.ask(ip=ip).status for ip in (CLIENT_IP, "198.51.100.8", CLIENT_IP)] == [200, 200, 429]


def test_ipv6_clients_share_their_prefix(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute")), view_limit="1/minute")
    assert door.ask(ip="2001:db8:1:2::1").status == 200
    assert door.ask(ip="2001:db8:1:2:ffff::9").status == 429
    assert door.ask(ip="2001:db8:1:3::1").status == 200


def test_ipv6_clients_share_their_prefix_on_a_views_limit_too(make: Maker) -> None:
    door = make(limiter())
    ips = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1")
    assert [door.ask("/limited", ip=ip).status for ip in ips] == [200, 429, 200]


def test_a_strangers_word_about_addresses_is_not_taken(make: Maker) -> None:
    door = make(limiter(by("ip", "1/minute")))
    asked = [door.ask(headers={"X-Forwarded-For": f"203.0.113.{n}"}).status for n in range(3)]
    assert asked == [200, 429, 429]


def test_a_trusted_proxys_word_is_taken(make: Maker) -> None:
    identity = IdentityOptions(trusted_proxies=["10.0.0.0/8"])
    door = make(limiter(by("ip", "1/minute"), identity=identity))
    asked = [door.ask(ip="10.0.0.1", headers={"X-Forwarded-For": f"203.0.113.{n}"}).status for n in (1, 2, 1)]
    assert asked == [200, 200, 429]


def test_a_token_says_who_is_asking(make: Maker) -> None:
    door = make(limiter(by("user", "1/minute"), identity=IdentityOptions(jwt_secret=SECRET)))

    def ask(user: str, ip: str) -> int:
        return door.ask(headers={"Authorization": f"Bearer {good(sub=user)}"}, ip=ip).status

    assert [ask("1", CLIENT_IP), ask("2", CLIENT_IP), ask("1", "203.0.113.1")] == [200, 200, 429]


def test_a_bad_token_is_answered_with_401(make: Maker) -> None:
    calls = Calls()
    door = make(limiter(by("user"), identity=IdentityOptions(jwt_secret=SECRET)), calls)
    got = door.ask(headers={"Authorization": "Bearer no.token.this"})
    assert (got.status, got.headers["content-type"]) == (401, "application/problem+json")
    assert json.loads(got.body)["title"] == "Unauthorized"
    assert calls.paths == []


def test_an_api_key_says_who_is_asking(make: Maker) -> None:
    entry = {"id": "k1", "user": "42", "hash": hmac.new(KEY_SECRET, API_KEY.encode(), hashlib.sha256).hexdigest()}
    identity = IdentityOptions(api_keys=[entry], api_key_secret=KEY_SECRET)
    counts = limiter(by("user", "1/minute"), identity=identity)
    door = make(counts)
    assert door.ask(headers={"X-API-Key": API_KEY}).status == 200
    assert counts.peek(user="42", cost=0).remaining == 0
    assert door.ask(headers={"X-API-Key": "another"}).status == 401


# --- composition


def test_a_views_limit_counts_beside_the_rules(make: Maker) -> None:
    door = make(limiter(by("ip", "10/minute")))
    first = door.ask("/limited")
    assert (first.status, first.headers["x-ratelimit-limit"]) == (200, "1")
    assert first.headers["ratelimit-policy"].count(";q=") == 2
    assert door.ask("/limited").status == 429


def test_a_views_refusal_gives_back_what_the_rules_spent(make: Maker) -> None:
    counts = limiter(by("ip", "10/minute"))
    door = make(counts)
    assert [door.ask("/limited").status for _ in range(5)] == [200] + [429] * 4
    assert left(counts) == 9


def test_a_rules_refusal_spends_nothing_of_a_views_limit(make: Maker) -> None:
    clock = FakeClock()
    counts = Limiter(rules=[by("ip", "1/second")], clock=clock)
    door = make(counts, view_limit="2/minute")
    assert [door.ask("/limited").status for _ in range(3)] == [200, 429, 429]
    clock.advance(1)
    assert door.ask("/limited").status == 200


def test_a_limit_met_inside_is_answered_as_every_refusal(make: Maker) -> None:
    counts = limiter(by("ip", "10/minute"))
    door = make(counts, jitter=0)
    assert door.ask("/met").status == 200
    refused = door.ask("/met")
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert json.loads(refused.body) == {"error": "Rate limit exceeded", "retry_after": 60}
    assert left(counts) == 9


def test_only_failures_are_counted_where_that_is_asked(make: Maker) -> None:
    door = make(limiter())
    assert [door.ask("/login/200").status for _ in range(5)] == [200] * 5
    assert [door.ask("/login/401").status for _ in range(3)] == [401, 401, 429]
    assert door.ask("/login/200").status == 429


def test_only_some_responses_are_counted_by_the_rules_too(make: Maker) -> None:
    counts = limiter(by("ip", "3/minute"))
    door = make(counts, when=lambda response: response.status == 404)
    for path in ("/api/items", "/answer/404", "/answer/302", "/nowhere"):
        door.ask(path)
    assert left(counts) == 1


def test_an_error_of_the_application_is_counted_once(make: Maker) -> None:
    counts = limiter(by("ip", "10/minute"))
    door = make(counts, when=lambda response: response.status == 500)
    got = door.ask("/fails")
    assert (got.status, got.headers["x-ratelimit-remaining"]) == (500, "9")
    assert left(counts) == 9


def test_an_error_that_does_not_count_is_given_back(make: Maker) -> None:
    counts = limiter(by("ip", "10/minute"))
    make(counts, when=lambda response: response.status < 500).ask("/fails")
    assert left(counts) == 10


def test_a_request_has_its_cost(make: Maker) -> None:
    assert make(limiter(by("ip", "10/minute")), cost=4).ask().headers["x-ratelimit-remaining"] == "6"


def test_a_stream_passes_untouched(make: Maker) -> None:
    got = make(limiter(by("ip"))).ask("/stream")
    assert got.body == b"".join(PIECES)
    assert got.headers["x-ratelimit-remaining"] == "1"
    assert "content-length" not in got.headers
