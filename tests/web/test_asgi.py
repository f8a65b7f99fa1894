"""The ASGI middleware, against plain applications."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headgate import ConfigError, IdentityOptions, Limiter, RateLimited
from headgate.middleware import Passage, Request, Response
from headgate.middleware.asgi import HeadgateMiddleware
from tests.integration.tokens import SECRET, good
from tests.web.asgi_client import STRANGER, ask, frozen, rule, statuses

PER_IP = [rule("per-ip", "ip", "2/minute")]


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def answering(status: int) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


def gated(rules: Any = PER_IP, app: Any = hello, **options: Any) -> HeadgateMiddleware:
    return HeadgateMiddleware(app, Limiter(rules, clock=frozen()), **options)


def test_what_is_past_the_limit_is_answered_as_the_decision_says() -> None:
    app = gated()
    first, second, third = ask(app, "/a", "/a", "/a")
    assert (first.status_code, second.status_code, third.status_code) == (200, 200, 429)
    twin = Limiter(PER_IP, clock=frozen())
    decision = [twin.check(ip=STRANGER, path="/a", method="GET") for _ in range(3)][-1]
    # The jitter of every decision is its own; without it both say the same.
    told = {name: value for name, value in third.headers.items() if "retry" not in name}
    expected = {name.lower(): value for name, value in decision.headers().items() if "retry" not in name.lower()}
    assert told == {**expected, "content-type": "application/json", "content-length": str(len(third.content))}
    assert third.json() == {"error": "Rate limit exceeded", "retry_after": int(third.headers["retry-after"])}
    assert 60 <= int(third.headers["retry-after"]) <= 66


def test_an_allowed_response_gets_the_rate_headers_and_keeps_its_own() -> None:
    (response,) = ask(gated(), "/a")
    assert response.text == "hello"
    assert response.headers["content-type"] == "text/plain"
    assert response.headers["x-ratelimit-remaining"] == "1"
    assert response.headers["ratelimit-policy"] == '"per-ip";q=2;w=60'


def test_a_rate_header_of_the_application_is_left_as_it_is() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        own = [(b"X-RateLimit-Limit", b"7"), (b"Retry-After", b"9")]
        await send({"type": "http.response.start", "status": 503, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    (response,) = ask(gated(app=app), "/")
    assert response.headers.get_list("x-ratelimit-limit") == ["7"]
    assert response.headers["x-ratelimit-remaining"] == "1"


def test_families_bodies_and_jitter_are_settable() -> None:
    _, _, refused = ask(gated(headers=["ietf"], problem=True, jitter=0), "/", "/", "/")
    assert "x-ratelimit-limit" not in refused.headers
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["retry_after"] == 60
    assert refused.json()["violated-policies"] == ["per-ip"]


def test_every_mistake_in_the_options_is_said_when_the_middleware_is_made() -> None:
    limiter = Limiter()
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"limiter": limiter, "rules": PER_IP}, ConfigError, "not both"),
        ({"headers": ["x-rate"]}, ConfigError, "headers: `x-rate`"),
        ({"jitter": 3.0}, ConfigError, "jitter"),
        ({"exempt": ["healthz"]}, ConfigError, "exempt: 'healthz'"),
        ({"exempt": ["/a*"]}, ConfigError, "exempt: '/a*'"),
        ({"cost": "1"}, TypeError, "cost"),
        ({"identify": "me"}, TypeError, "identify"),
        ({"limiter": object()}, TypeError, "limiter"),
    ]
    for options, kind, message in wrong:
        with pytest.raises(kind, match=message.replace("*", r"\*")):
            HeadgateMiddleware(hello, **options)


@pytest.mark.parametrize(
    ("path", "is_left_alone"),
    [
        ("/healthz", True),
        ("/healthz/", True),
        ("/healthz//", False),
        ("/health%7A", True),
        ("/static/css/a.css", True),
        ("/static", False),
        ("/users/7/avatar", True),
        ("/users/7/8/avatar", False),
        ("/static/../api", False),
        ("/static/%2e%2e/api", False),
        ("/healthzz", False),
        ("/Healthz", False),
    ],
)
def test_exempt_paths_are_compared_as_rules_see_paths(path: str, is_left_alone: bool) -> None:
    app = gated(exempt=["/healthz", "/static/*", "/users/{id}/avatar"])
    assert statuses(app, path, path, path) == ([200, 200, 200] if is_left_alone else [200, 200, 429])


def test_a_path_is_decoded_once() -> None:
    app = gated([rule("escaped", "ip", "1/minute", match={"endpoint": "/a/b"})])
    assert statuses(app, "/a%252Fb", "/a%252Fb") == [200, 200]
    assert statuses(app, "/a/b", "/a/b/", "/x/../a/b") == [200, 429, 429]


def test_a_path_without_end_is_refused_and_not_an_error() -> None:
    (response,) = ask(gated(), "/" + "a" * 9_000)
    assert response.status_code == 414
    assert response.headers["content-type"] == "application/problem+json"


def test_a_path_with_and_without_its_root_is_one_path() -> None:
    app = gated([rule("one", "ip", "1/minute", match={"endpoint": "/api/login"})])

    async def rooted(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "root_path": "/api"}, receive, send)

    assert statuses(rooted, "/login", "/api/login", "/login", "/apilogin") == [200, 429, 429, 200]


def test_a_server_without_a_raw_path_is_served_too() -> None:
    app = gated([rule("one", "global", "1/minute", match={"endpoint": "/a b"})])

    async def without(scope: Any, receive: Any, send: Any) -> None:
        scope.pop("raw_path")
        await app(scope, receive, send)

    assert statuses(without, "/a%20b", "/a%20b", "/other") == [200, 429, 200]


def test_tokens_and_keys_name_the_caller_and_bad_ones_are_refused() -> None:
    identity = IdentityOptions(jwt_secret=SECRET)
    limiter = Limiter([rule("per-user", "user", "1/minute")], identity=identity, clock=frozen())
    app = HeadgateMiddleware(hello, limiter)
    ada, bob = ({"Authorization": f"Bearer {good(sub=name)}"} for name in ("ada", "bob"))
    assert statuses(app, "/", "/", headers=ada) == [200, 429]
    assert statuses(app, "/", headers=bob) == [200]
    (bad,) = ask(app, "/", headers={"Authorization": "Bearer x.y.z"})
    assert (bad.status_code, bad.headers["content-type"]) == (401, "application/problem+json")
    assert bad.json()["detail"]
    assert bad.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert "x.y.z" not in bad.text


def test_credentials_sent_twice_are_not_believed() -> None:
    identity = IdentityOptions(jwt_secret=SECRET)
    app = HeadgateMiddleware(hello, Limiter(PER_IP, identity=identity, clock=frozen()))
    twice = [("Authorization", f"Bearer {good(sub='ada')}"), ("Authorization", f"Bearer {good(sub='bob')}")]
    assert statuses(app, "/", headers=twice) == [401]  # type: ignore[arg-type]


def test_a_stranger_cannot_choose_its_address() -> None:
    app = gated()
    for number in range(2):
        assert statuses(app, "/", headers={"X-Forwarded-For": f"198.51.100.{number}"}) == [200]
    assert statuses(app, "/", headers={"X-Forwarded-For": "198.51.100.9"}) == [429]
    # A proxy of ours can say whom it speaks for.
    assert statuses(app, "/", ip="127.0.0.1", headers={"X-Forwarded-For": "198.51.100.9"}) == [200]


def test_ipv6_clients_are_counted_by_prefix() -> None:
    app = gated()
    assert statuses(app, "/", ip="2001:db8::1") + statuses(app, "/", ip="2001:db8::2") == [200, 200]
    assert statuses(app, "/", ip="2001:db8::3") == [429]
    assert statuses(app, "/", ip="2001:db8:0:1::1") == [200]


def own_sync(request: Request) -> Any:
    return request.headers.get("X-User")


async def own_async(request: Request) -> Any:
    await asyncio.sleep(0)
    return {"user": request.headers.get("x-user"), "tier": "pro"}


@pytest.mark.parametrize("identify", [own_sync, own_async])
def test_an_application_may_say_itself_who_is_asking(identify: Any) -> None:
    app = gated([rule("per-user", "user", "1/minute")], identify=identify)
    assert statuses(app, "/", "/", headers={"X-User": "ada"}) == [200, 429]
    assert statuses(app, "/", headers={"X-User": "bob"}) == [200]
    # Nobody: counted by address.
    assert statuses(app, "/", "/") == [200, 429]


def test_what_identify_may_not_give_is_an_error_of_the_application() -> None:
    async def seen(request: Request) -> Any:
        return {"usr": "ada"}

    with pytest.raises(ConfigError, match="'usr' is not a fact"):
        _run(gated(identify=seen))
    with pytest.raises(TypeError, match="identify"):
        _run(gated(identify=lambda _: 1.5))


def test_a_caller_that_cannot_be_is_refused_and_not_an_error() -> None:
    app = gated(identify=lambda _: "x" * 5_000)
    assert statuses(app, "/") == [400]


def test_the_cost_may_depend_on_the_request() -> None:
    app = gated([rule("units", "ip", "10/minute")], cost=lambda request: int(request.headers["x-cost"]))
    assert statuses(app, "/", headers={"X-Cost": "8"}) == [200]
    assert statuses(app, "/", headers={"X-Cost": "3"}) == [429]
    assert statuses(app, "/", headers={"X-Cost": "2"}) == [200]


def test_only_failures_count_when_told_so() -> None:
    limiter = Limiter(PER_IP, clock=frozen())
    seen: list[Response] = []

    def is_failure(response: Response) -> bool:
        seen.append(response)
        return response.status >= 400

    good = HeadgateMiddleware(hello, limiter, when=is_failure)
    bad = HeadgateMiddleware(answering(401), limiter, when=is_failure)
    assert statuses(good, *["/"] * 5) == [200] * 5
    assert statuses(bad, "/", "/", "/") == [401, 401, 429]
    assert statuses(good, "/") == [429]
    assert seen[0].headers["Content-Type"] == "text/plain"


def test_an_application_that_fails_is_a_failure_and_counts_once() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("mistake")

    limiter = Limiter(PER_IP, clock=frozen())
    app = HeadgateMiddleware(broken, limiter, when=lambda response: response.status == 500)
    assert statuses(app, "/", "/", "/") == [500, 500, 429]


def test_parallel_attempts_do_not_slip_through_while_none_has_failed_yet() -> None:
    gate = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        await answering(401)(scope, receive, send)

    app = gated(app=slow, when=lambda response: response.status >= 400)

    async def attack() -> list[int]:
        from tests.web.asgi_client import client

        async with client(app) as attacker:
            attempts = [asyncio.create_task(attacker.post("/login")) for _ in range(20)]
            await asyncio.sleep(0.05)
            gate.set()
            return sorted([(await attempt).status_code for attempt in attempts])

    assert asyncio.run(attack()) == [401] * 2 + [429] * 18


def test_the_application_finds_what_was_decided() -> None:
    found: list[Passage] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["headgate"])
        await hello(scope, receive, send)

    ask(gated(app=app), "/")
    assert isinstance(found[0], Passage)
    assert found[0].decision is not None
    assert found[0].decision.remaining == 1
    assert found[0].facts == {"ip": STRANGER}
    assert isinstance(found[0].limiter, Limiter)
    with found[0].reserve(cost=1) as held:
        assert held.allowed
        assert not held.decision.remaining


def test_a_refusal_inside_the_application_is_answered_and_gives_back_the_rest() -> None:
    limiter = Limiter([rule("all", "global", "100/minute")], clock=frozen())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        decision = await limiter.acheck_limit("mail", "1/minute")
        if not decision:
            raise RateLimited(decision)
        await hello(scope, receive, send)

    assert statuses(HeadgateMiddleware(app, limiter), "/", "/", "/") == [200, 429, 429]
    assert limiter.peek(path="/", cost=0).remaining == 99


def test_wrapped_twice_is_counted_once_and_two_limiters_both_count() -> None:
    limiter = Limiter(PER_IP, clock=frozen())
    assert statuses(HeadgateMiddleware(HeadgateMiddleware(hello, limiter), limiter), "/", "/", "/") == [200, 200, 429]
    outer = Limiter([rule("outer", "ip", "9/minute")], clock=frozen())
    both = HeadgateMiddleware(gated([rule("inner", "ip", "1/minute")]), outer)
    assert statuses(both, "/", "/", "/") == [200, 429, 429]
    assert outer.peek(ip=STRANGER, cost=0).remaining == 8


def test_everything_but_http_passes_untouched() -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["type"], send))

    async def sink(message: Any) -> None: ...

    asyncio.run(gated(app=app)({"type": "websocket", "path": "/", "headers": []}, sink, sink))  # type: ignore[arg-type]
    assert seen == [("websocket", sink)]


def test_a_streamed_answer_keeps_its_pieces() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"1")], "trailers": True})
        for piece in (b"a", b"b"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        await send({"type": "http.response.trailers", "headers": []})

    async def keep(message: Any) -> None:
        sent.append(message)

    _run(gated(app=app), keep)
    assert [message["type"].rpartition(".")[2] for message in sent] == ["start", "body", "body", "body", "trailers"]
    assert sent[0]["trailers"] is True
    assert [message.get("body") for message in sent[1:4]] == [b"a", b"b", b""]


def test_without_any_rule_the_application_is_as_before() -> None:
    (response,) = ask(HeadgateMiddleware(hello), "/")
    assert dict(response.headers) == {"content-type": "text/plain"}


def test_blocks_and_own_statuses_are_the_rules_affair() -> None:
    rules = [
        {"name": "no", "action": "block", "match": {"endpoint": "/no"}},
        rule("teapot", "ip", "1/minute", match={"endpoint": "/tea"}, response={"status": 420, "message": "Calm down"}),
    ]
    blocked, first, second = ask(gated(rules), "/no", "/tea", "/tea")
    assert (blocked.status_code, first.status_code, second.status_code) == (403, 200, 420)
    assert json.loads(second.text)["error"] == "Calm down"


def _run(app: Any, send: Any = None) -> None:
    async def nothing(message: Any = None) -> Any: ...

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "headers": [],
        "client": None,
    }
    asyncio.run(app(scope, nothing, send or nothing))
