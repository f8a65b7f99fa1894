"""Limits beside routes: Starlette and FastAPI."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi import Request as FastAPIRequest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from headgate import ConfigError, IdentityOptions, Limiter, RateLimited
from headgate.middleware import Passage
from headgate.middleware.fastapi import HeadgateMiddleware, Refused, document, limit, user_or_ip
from tests.integration.tokens import SECRET, good
from tests.web.asgi_client import ask, frozen, rule, statuses


def limiter(*rules: Any, **options: Any) -> Limiter:
    return Limiter(list(rules), clock=frozen(), **options)


def with_and_without_middleware(build: Any) -> list[tuple[Any, Limiter]]:
    """The same application twice: what works must work both ways."""
    alone, behind = limiter(), limiter()
    app = build(None)
    app.add_middleware(HeadgateMiddleware, limiter=behind)
    return [(build(alone), alone), (app, behind)]


def test_a_dependency_limits_its_route_and_says_so_in_headers() -> None:
    def build(own: Limiter | None) -> FastAPI:
        app = FastAPI()

        @app.get("/items", dependencies=[Depends(limit("2/minute", by=user_or_ip, limiter=own))])
        async def items() -> dict[str, int]:
            return {"n": 1}

        return app

    for app, _ in with_and_without_middleware(build):
        first, _, third = ask(app, "/items", "/items", "/items")
        assert (first.json(), first.headers["x-ratelimit-remaining"]) == ({"n": 1}, "1")
        assert first.headers["ratelimit-policy"] == '"2/minute";q=2;w=60'
        assert third.status_code == 429
        assert third.json() == {"error": "Rate limit exceeded", "retry_after": int(third.headers["retry-after"])}
        # Another client has a counter of its own.
        assert statuses(app, "/items", ip="203.0.113.8") == [200]


def test_a_decorator_needs_no_request_argument_sync_or_async() -> None:
    def build(own: Limiter | None) -> FastAPI:
        app = FastAPI()

        @app.get("/sync/{n}")
        @limit("1/minute", by="ip", limiter=own)
        def sync_one(n: int, twice: bool = False) -> int:
            return n * 2 if twice else n

        @app.get("/async/{n}")
        @limit("1/minute", by="ip", limiter=own)
        async def async_one(n: int, request: FastAPIRequest) -> Response:
            return PlainTextResponse(f"{n} {request.method}")

        return app

    for app, _ in with_and_without_middleware(build):
        assert [response.text for response in ask(app, "/sync/2?twice=true", "/async/3")] == ["4", "3 GET"]
        for response in ask(app, "/sync/2", "/async/3"):
            assert (response.status_code, response.headers["x-ratelimit-limit"]) == (429, "1")
        # Arguments are checked as before.
        assert statuses(app, "/sync/no", ip="203.0.113.9") == [422]


def test_decorators_stack_and_all_must_allow() -> None:
    def build(own: Limiter | None) -> FastAPI:
        app = FastAPI()

        @app.get("/both")
        @limit("3/minute", by="global", limiter=own, name="everyone")
        @limit("1/minute", by="ip", limiter=own, name="each")
        async def both() -> int:
            return 1

        return app

    for app, counters in with_and_without_middleware(build):
        assert statuses(app, *["/both"] * 5) == [200, 429, 429, 429, 429]
        # One client over its own limit has not burned everybody's.
        assert counters.peek_limit("everyone|global", "3/minute", cost=0).remaining == 2
        assert statuses(app, "/both", ip="203.0.113.8") == [200]


def test_a_router_is_one_limit_for_all_its_routes() -> None:
    router = APIRouter(prefix="/r", dependencies=[Depends(limit("3/minute", by="ip"))])
    router.get("/a")(lambda: 1)
    router.get("/b")(lambda: 1)
    app = FastAPI()
    app.include_router(router)
    app.add_middleware(HeadgateMiddleware, limiter=limiter())
    assert statuses(app, "/r/a", "/r/b", "/r/a", "/r/b", "/r/a") == [200, 200, 200, 429, 429]


def test_two_limits_that_read_alike_count_apart_and_a_name_joins_them() -> None:
    app = FastAPI()
    app.get("/a", dependencies=[Depends(limit("1/minute", by="ip"))])(lambda: 1)
    app.get("/b", dependencies=[Depends(limit("1/minute", by="ip"))])(lambda: 1)
    app.get("/c", dependencies=[Depends(limit("1/minute", by="ip", name="shared"))])(lambda: 1)
    app.get("/d", dependencies=[Depends(limit("1/minute", by="ip", name="shared"))])(lambda: 1)
    app.add_middleware(HeadgateMiddleware, limiter=limiter())
    assert statuses(app, "/a", "/b", "/c", "/d") == [200, 200, 200, 429]


def test_a_routes_refusal_gives_back_what_the_rules_spent() -> None:
    shared = limiter(rule("everyone", "global", "100/minute"), rule("each", "ip", "50/minute"))
    app = FastAPI()
    app.get("/login", dependencies=[Depends(limit("1/minute", by="ip"))])(lambda: 1)
    app.add_middleware(HeadgateMiddleware, limiter=shared)
    first, *rest = ask(app, *["/login"] * 10)
    assert (first.status_code, {response.status_code for response in rest}) == (200, {429})
    assert shared.peek(ip="198.51.100.1", path="/", cost=0).results[1].remaining == 99
    assert first.headers["ratelimit-policy"] == '"each";q=50;w=60, "everyone";q=100;w=60, "1/minute";q=1;w=60'
    assert first.headers["ratelimit"] == '"1/minute";r=0;t=60'


def test_what_binds_is_told_whichever_step_it_was() -> None:
    app = FastAPI()
    app.get("/", dependencies=[Depends(limit("50/minute", by="ip", name="wide"))])(lambda: 1)
    app.add_middleware(HeadgateMiddleware, limiter=limiter(rule("tight", "ip", "2/minute")))
    (response,) = ask(app, "/")
    assert response.headers["ratelimit"] == '"tight";r=1;t=60'
    assert response.headers["x-ratelimit-limit"] == "2"


async def by_header(request: Request) -> str | None:
    return request.headers.get("x-tenant")


@pytest.mark.parametrize("by", [by_header, lambda request: request.headers.get("x-tenant")])
def test_by_may_be_a_function_of_the_request(by: Any) -> None:
    app = FastAPI()
    app.get("/", dependencies=[Depends(limit("1/minute", by=by))])(lambda: 1)
    app.add_middleware(HeadgateMiddleware, limiter=limiter())
    assert statuses(app, "/", "/", headers={"X-Tenant": "a"}) == [200, 429]
    assert statuses(app, "/", headers={"X-Tenant": "b"}) == [200]
    # Nothing to count by: the address, which no tenant can be named after.
    assert statuses(app, "/") == [200]
    assert statuses(app, "/", headers={"X-Tenant": "203.0.113.7"}) == [200]
    assert statuses(app, "/", "/", ip="203.0.113.8") == [200, 429]


def test_users_are_who_the_token_says_and_anonymous_clients_their_address() -> None:
    app = FastAPI()
    app.get("/", dependencies=[Depends(limit("1/minute"))])(lambda: 1)
    app.add_middleware(HeadgateMiddleware, limiter=limiter(identity=IdentityOptions(jwt_secret=SECRET)))
    ada = {"Authorization": f"Bearer {good(sub='ada')}"}
    assert statuses(app, "/", headers=ada) == [200]
    assert statuses(app, "/", headers=ada, ip="203.0.113.8") == [429]
    assert statuses(app, "/", "/") == [200, 429]


def test_bad_credentials_are_refused_without_the_middleware_too() -> None:
    own = limiter(identity=IdentityOptions(jwt_secret=SECRET))
    app = FastAPI()
    app.get("/", dependencies=[Depends(limit("1/minute", limiter=own))])(lambda: 1)
    (refused,) = ask(app, "/", headers={"Authorization": "Bearer x.y.z"})
    assert (refused.status_code, "x.y.z" in refused.text) == (401, False)


def test_a_limit_by_org_does_not_apply_where_there_is_none() -> None:
    app = FastAPI()
    app.get("/", dependencies=[Depends(limit("1/minute", by=["org", "ip"]))])(lambda: 1)

    def who(request: Any) -> Any:
        return {"org": request.headers.get("x-org")}

    app.add_middleware(HeadgateMiddleware, limiter=limiter(), identify=who)
    assert statuses(app, "/", "/") == [200, 200]
    assert statuses(app, "/", "/", headers={"X-Org": "acme"}) == [200, 429]


def test_parts_of_a_subject_never_look_like_another() -> None:
    app = FastAPI()
    app.get("/", dependencies=[Depends(limit("1/minute", by=["user", "org"]))])(lambda: 1)

    def who(request: Any) -> Any:
        user, org = request.headers["x-who"].split(",")
        return {"user": user, "org": org}

    app.add_middleware(HeadgateMiddleware, limiter=limiter(), identify=who)
    for pair in ("a|org:b,c", "a,b|org:c", "a%7Corg:b,c", "x" * 900 + ",c", "x" * 901 + ",c"):
        assert statuses(app, "/", "/", headers={"X-Who": pair}) == [200, 429], pair


def test_only_failed_logins_count() -> None:
    def build(own: Limiter | None) -> FastAPI:
        app = FastAPI()

        @app.post("/login")
        @limit("2/minute", by="ip", limiter=own, when=lambda response: response.status >= 400)
        async def login(password: str) -> str:
            if password == "bug":
                raise RuntimeError
            if password != "right":
                raise HTTPException(401)
            return "welcome"

        return app

    for app, _ in with_and_without_middleware(build):
        assert statuses(app, *["POST /login?password=right"] * 6) == [200] * 6
        assert statuses(app, *["POST /login?password=wrong", "POST /login?password=bug"]) == [401, 500]
        assert statuses(app, "POST /login?password=right") == [429]


def test_when_as_a_dependency_says_that_it_needs_the_middleware() -> None:
    dependency = limit("1/minute", when=lambda _: True, limiter=limiter())
    scope: dict[str, Any] = {"type": "http", "headers": [], "client": None, "path": "/", "method": "GET"}
    with pytest.raises(ConfigError, match="needs HeadgateMiddleware"):
        asyncio.run(dependency(Request(scope), Response()))


def test_the_cost_may_depend_on_the_request() -> None:
    app = FastAPI()
    pages = limit("10/minute", by="ip", cost=lambda request: int(request.query_params["pages"]))
    app.get("/", dependencies=[Depends(pages)])(lambda: 1)
    app.add_middleware(HeadgateMiddleware, limiter=limiter())
    assert statuses(app, "/?pages=8", "/?pages=3", "/?pages=2") == [200, 429, 200]


def test_handlers_of_the_application_win() -> None:
    async def own(request: Any, error: Any) -> Response:
        return JSONResponse({"own": type(error).__name__, "after": error.retry_after}, 418)

    for handled in (RateLimited, Refused, 429, HTTPException):
        app = FastAPI(exception_handlers={handled: own})
        app.get("/", dependencies=[Depends(limit("1/minute", by="ip"))])(lambda: 1)
        app.add_middleware(HeadgateMiddleware, limiter=limiter())
        _, refused = ask(app, "/", "/")
        assert (refused.status_code, refused.json()) == (418, {"own": "Refused", "after": 60.0}), handled


def test_the_openapi_document_says_429_where_a_route_is_limited() -> None:
    def build() -> FastAPI:
        app = FastAPI()
        router = APIRouter(prefix="/r", dependencies=[Depends(limit("1/minute"))])
        router.get("/in")(lambda: 1)
        app.get("/dependency", dependencies=[Depends(limit("1/minute"))])(lambda: 1)
        app.get("/argument")(_with_argument)
        app.get("/decorated")(limit("1/minute")(_plain))
        app.get("/free")(_plain)
        app.include_router(router)
        return app

    def limited(schema: dict[str, Any]) -> set[str]:
        return {path for path, operations in schema["paths"].items() if "429" in operations["get"]["responses"]}

    expected = {"/r/in", "/dependency", "/argument", "/decorated"}
    behind = build()
    behind.add_middleware(HeadgateMiddleware, limiter=limiter())
    (response,) = ask(behind, "/openapi.json")
    assert limited(response.json()) == expected
    refused = response.json()["paths"]["/dependency"]["get"]["responses"]["429"]
    assert set(refused["headers"]) >= {"Retry-After", "X-RateLimit-Remaining"}
    assert "headgate" not in str(response.json()["paths"]["/decorated"])

    alone = build()
    assert limited(alone.openapi()) == set()
    document(alone)
    assert limited(alone.openapi()) == expected


def _plain() -> int:
    return 1


def _with_argument(passed: Annotated[None, Depends(limit("1/minute"))]) -> int:
    return 1


def test_starlette_endpoints_functions_and_methods() -> None:
    @limit("1/minute", by="ip")
    async def function(request: Request) -> Response:
        return PlainTextResponse("f")

    @limit("1/minute", by="ip")
    def blocking(request: Request) -> Response:
        return PlainTextResponse("b")

    class Endpoint(HTTPEndpoint):
        @limit("1/minute", by="ip")
        async def get(self, _: Request) -> Response:
            return PlainTextResponse("m")

    app = Starlette(routes=[Route("/f", function), Route("/b", blocking), Route("/m", Endpoint)])
    app.add_middleware(HeadgateMiddleware, limiter=limiter())
    assert [response.text for response in ask(app, "/f", "/b", "/m")] == ["f", "b", "m"]
    for response in ask(app, "/f", "/b", "/m"):
        assert (response.status_code, response.headers["content-type"]) == (429, "application/json")


def test_what_is_no_endpoint_says_so() -> None:
    @limit("1/minute")
    async def helper(n: int) -> int:
        return n

    with pytest.raises(TypeError, match=r"Limiter\.limit"):
        asyncio.run(helper(3))
    with pytest.raises(TypeError, match="methods"):
        limit("1/minute")(HTTPEndpoint)


def test_a_mistake_in_a_limit_is_raised_where_it_is_written() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"limit": "often"}, "often"),
        ({"by": "usr"}, "'usr' is not one of"),
        ({"by": ["ip", "ip"]}, "once"),
        ({"by": ["ip", "global"]}, "alone"),
        ({"name": ""}, "name"),
        ({"cost": -1}, "cost"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            limit(**{"limit": "1/minute", **arguments})
    with pytest.raises(TypeError, match="when"):
        limit("1/minute", when="never")


def test_the_endpoint_can_see_what_was_decided() -> None:
    app = FastAPI()

    @app.get("/", dependencies=[Depends(limit("5/minute", by="ip"))])
    async def seen(request: FastAPIRequest) -> int | None:
        passage: Passage = request.scope["headgate"]
        return passage.decision.remaining if passage.decision else None

    app.add_middleware(HeadgateMiddleware, limiter=limiter())
    assert [response.json() for response in ask(app, "/", "/")] == [4, 3]
