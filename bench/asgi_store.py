"""The ASGI middleware over Valkey, 64 requests at a time, against slowapi over the same; and what it does to p99."""

import asyncio
import functools
from collections.abc import Mapping
from time import perf_counter_ns

from bench.added_cpu import BARE, ROUND_REQUESTS, TARGET_PART, added_figure, best_cpu_us
from bench.asgi_apps import fastapi_bare, fastapi_headgate, fastapi_slowapi, identity
from bench.figure import Effort, Figure
from bench.ping import Pings
from bench.rule_sets import FIVE_LIMITS, PATH, five_limit_rules
from bench.store_limiter import TASKS, patient_with_five, require_store_decided
from bench.store_meter import Meter, Product, products
from bench.timing import no_collections
from bench.web_requests import Asgi, Head, Receive, Scope, Send, asgi_cpu_us, heads, steady_us
from headgate.limiter import Facts
from tests.servers.server import Server

NAME = "asgi_store"
FACTS: Facts = {"user": "u1", "org": "o1", "ip": "198.51.0.1", "path": PATH}
# What the bare application carries with a fifth of a core: at its limit, p99 would tell of processor time once more.
RATE_PER_S = 2_000
TARGET_ROUND_TRIPS = 1.0
PING, PINGED = "PING", "a PING before it"


def _after_a_ping(app: Asgi, pings: Pings, took_us: list[float]) -> Asgi:
    """The bare application, had it asked the store for nothing first: how long a round trip takes at this load."""

    async def pinged(scope: Scope, receive: Receive, send: Send) -> None:
        start = perf_counter_ns()
        await pings.ping()
        took_us.append((perf_counter_ns() - start) / 1_000)
        await app(scope, receive, send)

    return pinged


def _p99(took_us: list[float]) -> float:
    return sorted(took_us)[int(len(took_us) * 0.99)]


def _best_p99_us(
    runner: asyncio.Runner, apps: Mapping[str, Asgi], pings: Pings, requests: list[Head], rounds: int
) -> dict[str, float]:
    """Short rounds, and many: in a long one some pause of the machine would be everybody's p99."""
    round_trips_us: list[float] = []
    asked = {**apps, PINGED: _after_a_ping(apps[BARE], pings, round_trips_us)}
    best_us = dict.fromkeys([*asked, PING], float("inf"))
    for _ in range(rounds):
        round_trips_us.clear()
        for name, app in asked.items():
            with no_collections():
                took_us = runner.run(steady_us(app, requests, TASKS, RATE_PER_S))
            best_us[name] = min(best_us[name], _p99(took_us))
        best_us[PING] = min(best_us[PING], _p99(round_trips_us))
    return best_us


def _tail(best_us: Mapping[str, float], script_us: Mapping[str, float], product: Product) -> Figure:
    added_us = {name: best_us[name] - best_us[BARE] for name in ("headgate", "slowapi", PINGED)}
    return Figure(
        NAME,
        product.named(
            f"ASGI middleware, store, 5 limits, {TASKS} clients, {RATE_PER_S:,}/s: added p99 vs one round trip"
        ),
        added_us["headgate"] / best_us[PING],
        "x",
        product.target(TARGET_ROUND_TRIPS),
        raw={
            "bare p99 µs": round(best_us[BARE]),
            **{f"{name} adds µs": round(us) for name, us in added_us.items()},
            "PING p99 µs": round(best_us[PING]),
            "the script takes p50 µs": round(script_us["p50"]),
            "the script takes p99 µs": round(script_us["p99"]),
        },
    )


def _measure(effort: Effort, product: Product) -> list[Figure]:
    requests = heads(effort.pick(2 * ROUND_REQUESTS, 128))
    with Server(product.binary) as server, asyncio.Runner() as runner:
        limiter = patient_with_five(server.url, five_limit_rules(), **FACTS)
        limiter.set_identity(identity())
        pings = runner.run(Pings.connect(server.port, TASKS))
        apps: dict[str, Asgi] = {
            BARE: fastapi_bare(),
            "headgate": fastapi_headgate(limiter),
            "slowapi": fastapi_slowapi(server.url),
        }
        plays = {name: functools.partial(asgi_cpu_us, runner, app, requests, TASKS) for name, app in apps.items()}
        best_cpu = best_cpu_us(lambda: plays, effort)
        meter = Meter(server)
        meter.forget_times()
        best_p99 = _best_p99_us(runner, apps, pings, requests, 3 * effort.rounds)
        script_us = meter.script_us()
        runner.run(pings.close())
        require_store_decided(limiter)
    name = f"ASGI middleware, store, {FIVE_LIMITS} limits and headers, {TASKS} at once: added CPU vs slowapi, 1 limit"
    target = product.target(TARGET_PART)
    cpu = added_figure(NAME, product.named(name), best_cpu, "headgate", "slowapi", target)
    return [cpu, _tail(best_p99, script_us, product)]


def run(effort: Effort) -> list[Figure]:
    return [figure for product in products() for figure in _measure(effort, product)]
