"""Web applications in this process, requests handed over by a function call: servers would do the same for all."""

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from time import perf_counter_ns, process_time_ns
from typing import Any

import slowapi
from fastapi import FastAPI, Request
from flask import Flask, request
from flask_limiter import Limiter as FlaskLimiter
from slowapi.errors import RateLimitExceeded

from bench.added_cpu import let_sweepers_finish
from bench.asgi_apps import ANSWER
from bench.side_by_side.work import (
    MEMORY,
    OWN,
    PLENTY,
    ROOMY,
    SHARED,
    TIGHT,
    TIGHT_COUNT,
    TWO,
    Ask,
    Contestant,
    NoAnswer,
    Speed,
    rules,
    users,
)
from bench.store_limiter import PATIENT_DEADLINE_S, require_store_decided
from bench.timing import no_collections, percentile
from bench.web_requests import Asgi, Head, Wsgi, answered, environ, wsgi_answered
from headgate import Limiter
from headgate.middleware import Request as Asked
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.middleware.flask import Headgate

CONCURRENT = 64
OK, REFUSED = 200, 429
# What the routes' decorators say. Decorators are asked from the function outwards: the shared limit first.
LIMITS = {ROOMY: (f"{PLENTY}/hour", f"{PLENTY}/hour"), TWO: (f"{OWN}/day", f"{SHARED}/day")}
ONE_LIMIT = f"{TIGHT_COUNT}/second"


def head(caller: str) -> Head:
    headers = [(b"host", b"api.example.com"), (b"accept", b"application/json"), (b"x-user", caller.encode())]
    return headers, ("198.51.100.7", 50_000)


def _user_of(asked: Asked) -> str | None:
    return asked.headers.get("x-user")


def _is_admitted(status: int) -> bool:
    if status not in (OK, REFUSED):
        raise NoAnswer(f"status {status}")
    return status == OK


def _limiters(store: str) -> tuple[Limiter, Limiter]:
    """One that waits for the store, and one as it comes."""
    return Limiter(rules(), store=store, store_deadline=PATIENT_DEADLINE_S), Limiter(rules(), store=store)


def _named(route: Any, path: str) -> Any:
    """Both peers know a route's limits by its function's name: under one name all routes would share them."""
    route.__name__ = f"items{path.replace('/', '_')}"
    return route


# --- FastAPI


def _fastapi() -> FastAPI:
    app = FastAPI()

    async def items(request: Request) -> dict[str, Any]:  # noqa: ARG001
        return ANSWER

    for path in (ROOMY, TWO, TIGHT):
        app.get(path)(items)
    return app


def _fastapi_slowapi(store: str) -> FastAPI:
    limiter = slowapi.Limiter(key_func=lambda request: request.headers["x-user"], storage_uri=store)
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, slowapi._rate_limit_exceeded_handler)  # type: ignore[arg-type]

    def route(path: str) -> Any:
        async def items(request: Request) -> dict[str, Any]:  # noqa: ARG001
            return ANSWER

        return _named(items, path)

    for path, (own, shared) in LIMITS.items():
        everyone = limiter.shared_limit(shared, scope=path, key_func=lambda: "everyone")
        app.get(path)(limiter.limit(own)(everyone(route(path))))
    app.get(TIGHT)(limiter.limit(ONE_LIMIT)(route(TIGHT)))
    return app


def asgi_contestants(store: str, closing: ExitStack) -> Iterator[Contestant]:
    patient, as_it_comes = _limiters(store)
    ours = HeadgateMiddleware(_fastapi(), patient, identify=_user_of)
    runner = closing.enter_context(asyncio.Runner())
    yield Contestant(f"*FastAPI {version('fastapi')} without a limiter*", _asgi_play(runner, _fastapi()), None)
    yield Contestant(
        f"**Headgate** {version('headgate')}, ASGI",
        _asgi_play(runner, ours),
        _asgi_ask(closing, ours),
        is_ours=True,
        has_store=store != MEMORY,
        ask_hung=_asgi_ask(closing, HeadgateMiddleware(_fastapi(), as_it_comes, identify=_user_of)),
        prove=functools.partial(require_store_decided, patient),
    )
    app = _fastapi_slowapi(store)
    yield Contestant(
        f"slowapi {version('slowapi')}", _asgi_play(runner, app), _asgi_ask(closing, app), has_store=store != MEMORY
    )


def _asgi_play(runner: asyncio.Runner, app: Asgi) -> Callable[[int], Speed]:
    async def client(pile: Iterator[Head], took_ns: list[int]) -> None:
        for one in pile:
            start = perf_counter_ns()
            status, _ = await answered(app, one, ROOMY)
            took_ns.append(perf_counter_ns() - start)
            if not _is_admitted(status):
                raise NoAnswer("a limit that never refuses did")

    async def crowd(heads: Sequence[Head]) -> list[int]:
        pile, took_ns = iter(heads), list[int]()
        await asyncio.gather(*(client(pile, took_ns) for _ in range(CONCURRENT)))
        return took_ns

    return functools.partial(_timed, lambda heads: runner.run(crowd(heads)))


def _asgi_ask(closing: ExitStack, app: Asgi) -> Ask:
    """With a loop of its own, kept from request to request: asked by any thread, but by one at a time."""
    runner = closing.enter_context(asyncio.Runner())

    def ask(path: str, caller: str) -> bool:
        return _is_admitted(runner.run(answered(app, head(caller), path))[0])

    return ask


def _timed(take: Callable[[Sequence[Head]], list[int]], requests: int) -> Speed:
    heads = [head(caller) for caller in users(requests)]
    with no_collections():
        start, cpu_start = perf_counter_ns(), process_time_ns()
        took_ns = take(heads)
        wall_ns, cpu_ns = perf_counter_ns() - start, process_time_ns() - cpu_start
    let_sweepers_finish()
    p99_us = percentile(sorted(took_ns), 0.99) / 1e3
    return Speed(requests / wall_ns * 1e9, cpu_ns / requests / 1e3, p99_us, requests)


# --- Flask


def _flask() -> Flask:
    app = Flask("bare")
    for path in (ROOMY, TWO, TIGHT):
        app.add_url_rule(path, path.replace("/", "_"), lambda: ANSWER)
    return app


def _flask_headgate(limiter: Limiter) -> Flask:
    app = _flask()
    Headgate(app, limiter, identify=_user_of)
    return app


def _flask_limiter(store: str) -> Flask:
    app = Flask("limited")
    limiter = FlaskLimiter(lambda: request.headers["x-user"], app=app, storage_uri=store)

    def route(path: str) -> Any:
        def items() -> dict[str, Any]:
            return ANSWER

        return _named(items, path)

    for path, (own, shared) in LIMITS.items():
        everyone = limiter.shared_limit(shared, scope=path, key_func=lambda: "everyone")
        app.add_url_rule(path, path.replace("/", "_"), limiter.limit(own)(everyone(route(path))))
    app.add_url_rule(TIGHT, "tight", limiter.limit(ONE_LIMIT)(route(TIGHT)))
    return app


def wsgi_contestants(store: str) -> Iterator[Contestant]:
    patient, as_it_comes = _limiters(store)
    ours = _flask_headgate(patient)
    yield Contestant(f"*Flask {version('flask')} without a limiter*", _wsgi_play(_flask()), None)
    yield Contestant(
        f"**Headgate** {version('headgate')}, Flask",
        _wsgi_play(ours),
        _wsgi_ask(ours),
        is_ours=True,
        has_store=store != MEMORY,
        ask_hung=_wsgi_ask(_flask_headgate(as_it_comes)),
        prove=functools.partial(require_store_decided, patient),
    )
    app = _flask_limiter(store)
    yield Contestant(
        f"Flask-Limiter {version('flask-limiter')}", _wsgi_play(app), _wsgi_ask(app), has_store=store != MEMORY
    )


def _wsgi_play(app: Wsgi) -> Callable[[int], Speed]:
    def take(heads: Sequence[Head]) -> list[int]:
        took_ns = []
        for one in heads:
            start = perf_counter_ns()
            status, _ = wsgi_answered(app, environ(one, ROOMY))
            took_ns.append(perf_counter_ns() - start)
            if not _is_admitted(status):
                raise NoAnswer("a limit that never refuses did")
        return took_ns

    return functools.partial(_timed, take)


def _wsgi_ask(app: Wsgi) -> Ask:
    return lambda path, caller: _is_admitted(wsgi_answered(app, environ(head(caller), path))[0])
