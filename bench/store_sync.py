"""A sync check of one limit over one server against a bare INCR of redis-py, one thread, one after the other."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from time import perf_counter_ns
from typing import Any

import redis
from redis._parsers import _HiredisParser, _RESP2Parser

from bench.figure import Effort, Figure
from bench.store_limiter import ROOMY, patient, require_store_decided, users
from bench.store_meter import Product, products
from bench.timing import best_of_rounds
from headgate import Limiter
from tests.servers.server import Server

NAME = "store_sync"
TARGET_TIMES = 1.0
PARSERS: dict[str, type[Any]] = {"Python": _RESP2Parser, "hiredis": _HiredisParser}
ALGORITHMS = tuple(ROOMY)


def _check(limiter: Limiter, algorithm: str, keys: Sequence[str]) -> Callable[[], float]:
    check_limit, roomy = limiter.check_limit, ROOMY[algorithm]

    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for key in keys:
            check_limit(key, *roomy)
        return (perf_counter_ns() - start) / len(keys)

    return round_ns_per_call


def _incr(client: redis.Redis, keys: Sequence[str]) -> Callable[[], float]:
    incr = client.incr

    def round_ns_per_call() -> float:
        start = perf_counter_ns()
        for key in keys:
            incr(key)
        return (perf_counter_ns() - start) / len(keys)

    return round_ns_per_call


def _clients(url: str, closing: ExitStack) -> dict[str, redis.Redis]:
    """One connection without a pool to take it from, and RESP2, the cheaper protocol to read: redis-py at its best."""
    clients = {}
    for name, parser in PARSERS.items():
        pool = redis.ConnectionPool.from_url(url, protocol=2, parser_class=parser)
        client = redis.Redis(connection_pool=pool, single_connection_client=True)
        closing.callback(pool.disconnect)
        clients[f"INCR {name} parser"] = closing.enter_context(client)
    return clients


def _figures(effort: Effort, product: Product) -> list[Figure]:
    keys = users(effort.pick(3_000, 500))
    with Server(product.binary) as server, ExitStack() as closing:
        limiter = patient(server.url)
        clients = _clients(server.url, closing)
        contestants = {algorithm: _check(limiter, algorithm, keys) for algorithm in ALGORITHMS}
        contestants |= {name: _incr(client, keys) for name, client in clients.items()}
        best = best_of_rounds(contestants, effort.rounds)
        require_store_decided(limiter)
    fastest = min(clients, key=lambda name: best[name])
    incr_us = {f"{name} µs": round(best[name] / 1e3, 1) for name in clients}
    return [
        Figure(
            NAME,
            product.named(f"check_limit, {algorithm}, one thread: rate vs redis-py INCR"),
            best[fastest] / best[algorithm],
            "x",
            product.target(TARGET_TIMES),
            at_least=True,
            raw={f"{algorithm} µs": round(best[algorithm] / 1e3, 1), **incr_us},
        )
        for algorithm in ALGORITHMS
    ]


def run(effort: Effort) -> list[Figure]:
    return [figure for product in products() for figure in _figures(effort, product)]
