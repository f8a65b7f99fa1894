"""What a client of each proxy gets: its answers, then the refusal, with the headers and the body of the documents."""

from __future__ import annotations

import pytest

from tests.proxies.application import WANTED_STATUS
from tests.proxies.client import Client
from tests.proxies.stack import Stack

# Of `login` in the examples' rules.
LOGINS = 5
WINDOW_S = 60
RATE_HEADERS = {"ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}


def test_five_logins_pass_and_the_sixth_is_refused_by_the_rule_for_logins(client: Client) -> None:
    statuses = [client.login().status for _ in range(LOGINS)]
    refused = client.login()
    assert (statuses, refused.status) == ([200] * LOGINS, 429)
    assert refused.headers["x-headgate-rule"] == "login"


def test_a_refusal_tells_when_to_come_back_in_every_family_of_headers_and_in_the_body(client: Client) -> None:
    for _ in range(LOGINS):
        client.login()
    refused = client.login()
    wait_s = int(refused.headers["retry-after"])
    # Rounded up, and up to a tenth more so that clients do not all return at once.
    assert 0 < wait_s <= WINDOW_S * 1.1 + 1
    assert refused.headers["x-ratelimit-retry-after"] == str(wait_s)
    assert refused.headers["x-ratelimit-limit"] == str(LOGINS)
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert 0 < int(refused.headers["x-ratelimit-reset"]) <= WINDOW_S
    assert refused.headers["ratelimit"].startswith('"login";r=0;t=')
    assert f'"login";q={LOGINS};w={WINDOW_S}' in refused.headers["ratelimit-policy"]
    assert refused.headers["content-type"] == "application/json"
    assert refused.json() == {"error": "Rate limit exceeded", "retry_after": wait_s}


def test_an_allowed_answer_tells_what_is_left_where_the_proxy_can(stack: Stack, client: Client) -> None:
    left = [client.login().headers for _ in range(2)]
    if stack.front.tells_rate_when_allowed:
        assert [headers["x-ratelimit-remaining"] for headers in left] == ["4", "3"]
        assert all(headers.keys() >= RATE_HEADERS for headers in left)
    else:
        assert not any(headers.keys() & RATE_HEADERS for headers in left)


def test_every_client_is_counted_on_its_own(stack: Stack) -> None:
    greedy, modest = stack.client(), stack.client()
    while greedy.login().status == 200:
        pass
    assert modest.login().status == 200


def test_a_refusal_spends_nothing_and_other_paths_go_on(client: Client) -> None:
    for _ in range(LOGINS + 3):
        client.login()
    assert client.get("/other").status == 200


def test_the_application_gets_the_request_as_it_was_sent(client: Client) -> None:
    seen = client.ask("POST", "/a%20b/c?d=%2F&e", {"X-Own": "kept"}, b"some body").seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/a%20b/c?d=%2F&e", "some body")
    assert seen.header("x-own") == "kept"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503, 504])
def test_the_applications_own_errors_stay_its_own(client: Client, status: int) -> None:
    answer = client.ask("POST", "/own", {WANTED_STATUS: str(status)}, b"once")
    assert (answer.status, answer.seen.body) == (status, "once")
    assert not answer.headers.keys() & {"retry-after", "x-headgate-rule"}


def test_a_blocked_path_is_refused_by_the_rule_that_blocks_it(stack: Stack, client: Client) -> None:
    refused = client.get("/internal/keys")
    assert (refused.status, refused.headers["x-headgate-rule"]) == (stack.front.blocked_status, "internal")


@pytest.mark.parametrize(
    "path",
    [
        "/%69nternal/keys",
        "/internal//keys",
        "//internal/keys",
        "/./internal/keys",
        "/public/../internal/keys",
        "/public/%2e%2e/internal/keys",
        "/%2e/internal/keys",
        "/internal/%6Beys?from=/public",
        "/internal%2Fkeys",
        "http://elsewhere/internal/keys",
    ],
)
def test_no_spelling_of_a_blocked_path_reaches_the_application(stack: Stack, client: Client, path: str) -> None:
    # Some proxies answer a strange path themselves, with 400 or a redirection.
    assert client.get(path).status in (stack.front.blocked_status, 301, 307, 308, 400)


def test_all_spellings_of_a_path_are_counted_as_one(client: Client) -> None:
    for path in ("/login", "/l%6Fgin", "/login/", "/login?a=1", "/login?b=%2Fx"):
        assert client.login(path=path).status == 200
    assert client.login(path="/%6Cogin?c").status == 429
