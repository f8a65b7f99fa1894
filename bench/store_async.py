"""Async checks over one server, many tasks at once: five limits against `limits`, one against a bare INCR."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager

from bench.crowd import Crowd, Work
from bench.figure import Effort, Figure
from bench.rule_sets import one_subject_rules
from bench.store_async_peers import bare_incr, five_limits_hits
from bench.store_limiter import (
    ROOMY,
    TASKS,
    patient,
    patient_with_five,
    require_store_decided,
    users,
)
from bench.store_meter import Product, products
from bench.timing import best_of_rounds
from headgate import Limiter
from tests.servers.server import Server

NAME = "store_async"
TARGET_FIVE_TIMES = 10.0
TARGET_ONE_TIMES = 4.0
ALGORITHMS = tuple(ROOMY)


def _check_five(limiter: Limiter) -> Work:
    acheck = limiter.acheck

    async def work(names: Iterator[str]) -> None:
        for user in names:
            await acheck(user=user)

    return work


def _check_one(limiter: Limiter, algorithm: str) -> Work:
    acheck_limit, roomy = limiter.acheck_limit, ROOMY[algorithm]

    async def work(keys: Iterator[str]) -> None:
        for key in keys:
            await acheck_limit(key, *roomy)

    return work


@contextmanager
def _crowd(closing: AsyncExitStack) -> Iterator[Crowd]:
    with asyncio.Runner() as runner:
        try:
            yield Crowd(runner, TASKS)
        finally:
            runner.run(closing.aclose())


def _figures(
    best: Mapping[str, float], product: Product, name: str, peers: Mapping[str, Work], target: float
) -> list[Figure]:
    fastest = min(peers, key=lambda peer: best[peer])
    others = {f"{peer} /s": round(1e9 / best[peer]) for peer in peers}
    return [
        Figure(
            NAME,
            product.named(name.format(algorithm=algorithm)),
            best[fastest] / best[algorithm],
            "x",
            product.target(target),
            at_least=True,
            raw={f"{algorithm} /s": round(1e9 / best[algorithm]), **others, "fastest": fastest},
        )
        for algorithm in ALGORITHMS
    ]


def _five(effort: Effort, product: Product) -> list[Figure]:
    closing = AsyncExitStack()
    with Server(product.binary) as server, _crowd(closing) as crowd:
        limiters = {a: patient_with_five(server.url, one_subject_rules(a), user="first") for a in ALGORITHMS}
        peers = five_limits_hits(server.url, closing)
        requests, slow_requests = users(effort.pick(6_400, 1_280)), users(effort.pick(320, 128))
        contestants: dict[str, Callable[[], float]] = {
            algorithm: crowd.contestant(_check_five(limiter), requests) for algorithm, limiter in limiters.items()
        }
        contestants |= {name: crowd.contestant(work, slow_requests) for name, work in peers.items()}
        best = best_of_rounds(contestants, effort.rounds)
        require_store_decided(*limiters.values())
    name = f"acheck, 5 limits, {{algorithm}}, {TASKS} tasks: rate vs five limits hits"
    return _figures(best, product, name, peers, TARGET_FIVE_TIMES)


def _one(effort: Effort, product: Product) -> list[Figure]:
    closing = AsyncExitStack()
    with Server(product.binary) as server, _crowd(closing) as crowd:
        limiter = patient(server.url)
        peers = bare_incr(server.url, closing)
        requests, slow_requests = users(effort.pick(12_800, 1_280)), users(effort.pick(2_560, 256))
        contestants: dict[str, Callable[[], float]] = {
            algorithm: crowd.contestant(_check_one(limiter, algorithm), requests) for algorithm in ALGORITHMS
        }
        contestants |= {name: crowd.contestant(work, slow_requests) for name, work in peers.items()}
        best = best_of_rounds(contestants, effort.rounds)
        require_store_decided(limiter)
    name = f"acheck_limit, {{algorithm}}, {TASKS} tasks: rate vs redis.asyncio INCR"
    return _figures(best, product, name, peers, TARGET_ONE_TIMES)


def run(effort: Effort) -> list[Figure]:
    return [figure for product in products() for part in (_five, _one) for figure in part(effort, product)]
