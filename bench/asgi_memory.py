"""The ASGI middleware with five limits and headers, counters in memory, against slowapi's decorator with one limit."""

import asyncio
import functools
from collections.abc import Callable

from bench.added_cpu import BARE, ROUND_REQUESTS, TARGET_PART, added_figure, best_cpu_us
from bench.asgi_apps import fastapi_bare, fastapi_headgate, fastapi_slowapi, identity
from bench.figure import Effort, Figure
from bench.rule_sets import FIVE_LIMITS, five_limit_rules
from bench.web_requests import Asgi, asgi_cpu_us, ask, heads
from headgate import Limiter

NAME = "asgi_memory"
BY_KEY, BY_FUNCTION, PEER = "by API key", "by a function", "slowapi"


def _require_five(headers: dict[bytes, bytes]) -> None:
    """Every limit is named in the policy."""
    policies = {name.lower(): value for name, value in headers.items()}.get(b"ratelimit-policy", b"")
    if policies.count(b";q=") != FIVE_LIMITS:
        raise RuntimeError(f"an answer tells of these limits instead of {FIVE_LIMITS}: {policies!r}")


def run(effort: Effort) -> list[Figure]:
    requests = heads(effort.pick(ROUND_REQUESTS, 64))
    with asyncio.Runner() as runner:

        def make() -> dict[str, Callable[[], float]]:
            limiter = Limiter(five_limit_rules(), identity=identity())
            ours: dict[str, Asgi] = {
                BY_KEY: fastapi_headgate(limiter),
                BY_FUNCTION: fastapi_headgate(limiter, is_by_function=True),
            }
            for app in ours.values():
                _require_five(runner.run(ask(app, requests[0])))
            apps: dict[str, Asgi] = {BARE: fastapi_bare(), **ours, PEER: fastapi_slowapi("memory://")}
            return {name: functools.partial(asgi_cpu_us, runner, app, requests, 1) for name, app in apps.items()}

        best_us = best_cpu_us(make, effort)
    name = "ASGI middleware, memory, 5 limits and headers, {}: added CPU vs slowapi, 1 limit"
    targets = {BY_KEY: TARGET_PART, BY_FUNCTION: None}
    return [added_figure(NAME, name.format(by), best_us, by, PEER, target) for by, target in targets.items()]
