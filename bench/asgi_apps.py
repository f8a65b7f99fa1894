"""One small ASGI application, bare and behind each limiter, as their users set them up. No limit ever refuses."""

import hashlib
import hmac
from typing import Any

import slowapi
from fastapi import FastAPI, Request
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address

from bench.rule_sets import PATH
from bench.web_requests import ORGS, USERS, api_key
from headgate import IdentityOptions, Limiter
from headgate.middleware import Request as Asked
from headgate.middleware.asgi import HeadgateMiddleware

ROOMY = "1000000000/hour"
SECRET = b"a secret of at least thirty-two bytes"
ANSWER = {"items": ["a", "b", "c"], "next": None}


def identity() -> IdentityOptions:
    """Callers known by their API key, as the middleware does it by itself."""
    keys = [
        {
            "id": f"k{number}",
            "user": f"u{number}",
            "org": f"o{number % ORGS}",
            "hash": hmac.new(SECRET, api_key(number), hashlib.sha256).hexdigest(),
        }
        for number in range(USERS)
    ]
    return IdentityOptions(api_keys=keys, api_key_secret=SECRET)


def facts_of(request: Asked) -> dict[str, Any]:
    """The application's own function: who is asking is in two headers."""
    return {"user": request.headers.get("x-user"), "org": request.headers.get("x-org")}


def fastapi_bare() -> FastAPI:
    app = FastAPI()

    # slowapi wants the argument; with it here too, nobody is charged for it.
    @app.get(PATH)
    async def search(request: Request) -> dict[str, Any]:  # noqa: ARG001
        return ANSWER

    return app


def fastapi_headgate(limiter: Limiter, *, is_by_function: bool = False) -> HeadgateMiddleware:
    return HeadgateMiddleware(fastapi_bare(), limiter, identify=facts_of if is_by_function else None)


def fastapi_slowapi(storage_uri: str) -> FastAPI:
    limiter = slowapi.Limiter(key_func=get_remote_address, storage_uri=storage_uri)
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, slowapi._rate_limit_exceeded_handler)  # type: ignore[arg-type]

    @app.get(PATH)
    @limiter.limit(ROOMY)
    async def search(request: Request) -> dict[str, Any]:  # noqa: ARG001
        return ANSWER

    return app
