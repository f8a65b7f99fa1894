"""The WSGI middleware, against plain applications."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest

from headgate import IdentityOptions, Limiter, RateLimited
from headgate.middleware.wsgi import HeadgateMiddleware
from tests.integration.tokens import SECRET, good
from tests.web.asgi_client import STRANGER, frozen, rule

PER_IP = [rule("per-ip", "ip", "2/minute")]


def hello(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


class Got:
    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, dict[str, str](), b""


def ask(app: Any, path: str = "/", ip: str = STRANGER, **environ: Any) -> Got:
    got = Got()

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        got.status, got.headers = int(status.split()[0]), {name.lower(): value for name, value in headers}
        return got

    asked = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "REMOTE_ADDR": ip,
        "wsgi.version": (1, 0),
        "wsgi.input": io.BytesIO(),
        **environ,
    }
    got.body = b"".join(app(asked, start_response))
    return got


def gated(rules: Any = PER_IP, app: Any = hello, **options: Any) -> HeadgateMiddleware:
    return HeadgateMiddleware(app, Limiter(rules, clock=frozen(), **options.pop("limiter", {})), **options)


def statuses(app: Any, times: int, **how: Any) -> list[int]:
    return [ask(app, **how).status for _ in range(times)]


def test_what_is_past_the_limit_is_refused_and_what_passes_has_headers() -> None:
    app = gated(jitter=0)
    first = ask(app)
    assert (first.status, first.body, first.headers["content-type"]) == (200, b"hello", "text/plain")
    assert first.headers["x-ratelimit-remaining"] == "1"
    assert statuses(app, 2) == [200, 429]
    refused = ask(app)
    assert (refused.body, refused.headers["retry-after"]) == (
        b'{"error": "Rate limit exceeded", "retry_after": 60}',
        "60",
    )
    assert refused.headers["content-length"] == str(len(refused.body))


def test_the_path_is_what_the_application_routes_by() -> None:
    rules = [rule("one", "ip", "1/minute", match={"endpoint": "/a/b"})]
    app = gated(rules)
    # The server has decoded %252F once: it is not a slash.
    assert statuses(app, 2, path="/a%2Fb") == [200, 200]
    # A rewrite leaves what came as it was.
    assert statuses(app, 2, path="/a/b", RAW_URI="/other", REQUEST_URI="/other") == [200, 429]
    assert statuses(app, 1, path="/b", SCRIPT_NAME="/a") == [429]


def test_an_application_that_works_when_it_is_read_is_guarded_too() -> None:
    limiter = Limiter([rule("all", "global", "9/minute")], clock=frozen())
    closed: list[bool] = []

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        try:
            decision = limiter.check_limit("mail", "1/minute")
            if not decision:
                raise RateLimited(decision)
            start_response("200 OK", [])
            yield b"a"
            yield b"b"
        finally:
            closed.append(True)

    gate = HeadgateMiddleware(app, limiter)
    first, second = ask(gate), ask(gate)
    assert (first.status, first.body, second.status) == (200, b"ab", 429)
    assert first.headers["x-ratelimit-remaining"] == "8"
    assert limiter.peek(path="/", cost=0).remaining == 8
    assert closed == [True, True]


def test_text_beyond_ascii_is_what_it_was() -> None:
    app = gated([rule("one", "ip", "1/minute", match={"endpoint": "/café"})])
    assert statuses(app, 2, path="/café".encode().decode("latin-1")) == [200, 429]


def test_callers_are_known_by_token_and_address() -> None:
    identity = IdentityOptions(jwt_secret=SECRET)
    app = gated([rule("each", "user", "1/minute")], limiter={"identity": identity})
    assert statuses(app, 2, HTTP_AUTHORIZATION=f"Bearer {good(sub='ada')}") == [200, 429]
    assert statuses(app, 1, HTTP_AUTHORIZATION=f"Bearer {good(sub='bob')}") == [200]
    bad = ask(app, HTTP_AUTHORIZATION=f"Bearer {good(sub='ada')},Bearer {good(sub='bob')}")
    assert (bad.status, bad.headers["content-type"]) == (401, "application/problem+json")
    assert statuses(app, 2, HTTP_X_FORWARDED_FOR="198.51.100.1") == [200, 429]
    assert statuses(app, 1, HTTP_X_FORWARDED_FOR="198.51.100.2") == [429]
    assert statuses(app, 1, ip="127.0.0.1", HTTP_X_FORWARDED_FOR="198.51.100.2") == [200]


def test_a_server_on_a_unix_socket_is_believed() -> None:
    app = gated([rule("each", "ip", "1/minute")])
    for address in ("198.51.100.1", "198.51.100.2"):
        assert statuses(app, 2, ip="", HTTP_X_FORWARDED_FOR=address) == [200, 429]


def test_the_applications_own_function_and_cost() -> None:
    app = gated(
        [rule("units", "user", "10/minute")],
        identify=lambda request: request.headers.get("X-User"),
        cost=lambda request: int(request.headers["x-cost"]),
    )
    assert statuses(app, 2, HTTP_X_USER="ada", HTTP_X_COST="6") == [200, 429]
    assert statuses(app, 1, HTTP_X_USER="ada", HTTP_X_COST="4") == [200]


def test_a_refusal_inside_gives_back_the_rest() -> None:
    limiter = Limiter([rule("all", "global", "9/minute")], clock=frozen())

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        decision = limiter.check_limit("mail", "1/minute")
        if not decision:
            raise RateLimited(decision)
        return hello(environ, start_response)

    assert statuses(HeadgateMiddleware(app, limiter), 3) == [200, 429, 429]
    assert limiter.peek(path="/", cost=0).remaining == 8


def test_failures_alone_count_also_those_without_a_response() -> None:
    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/broken":
            raise RuntimeError
        return hello(environ, start_response)

    gate = gated(app=app, when=lambda response: response.status >= 400)
    assert statuses(gate, 5) == [200] * 5
    for _ in range(2):
        with pytest.raises(RuntimeError):
            ask(gate, "/broken")
    assert statuses(gate, 1) == [429]


def test_a_path_without_end_is_refused() -> None:
    assert ask(gated(), "/" + "a" * 9_000).status == 414


def test_exempt_paths_and_a_second_wrapping_count_nothing() -> None:
    limiter = Limiter(PER_IP, clock=frozen())
    app = HeadgateMiddleware(HeadgateMiddleware(hello, limiter), limiter, exempt=["/healthz"])
    assert statuses(HeadgateMiddleware(hello, limiter, exempt=["/healthz"]), 3, path="/healthz/") == [200] * 3
    assert statuses(app, 3) == [200, 200, 429]


def test_a_status_without_a_name_can_be_sent() -> None:
    app = gated([rule("odd", "ip", "1/minute", response={"status": 499})])
    assert statuses(app, 2) == [200, 499]
