"""What a 5-limit request costs the server in processor time, against five counters written by hand."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.crowd import Crowd, Work
from bench.figure import Effort, Figure
from bench.plain_counters import PlainCounters, request_bytes
from bench.rule_sets import LONG_LOG_GROUPS, LONG_LOG_LIMIT, long_log_rules, one_subject_rules
from bench.store_limiter import TASKS, patient_with_five, require_store_decided, users
from bench.store_meter import Meter, Product, products
from bench.timing import best_of_rounds
from headgate import Limiter
from tests.servers.server import Server

NAME = "store_cpu"
TARGETS = {"gcra": 0.6, "sliding_window": 1.0}
ONE_USER = "u7"
LONG_LOGS = f"sliding_window, {LONG_LOG_GROUPS} groups each"
PLAIN = "five counters"
PLAIN_TOGETHER = f"five counters, {TASKS} requests in a pipeline"


def _check(limiter: Limiter) -> Work:
    acheck = limiter.acheck

    async def work(names: Iterator[str]) -> None:
        for user in names:
            await acheck(user=user)

    return work


def _cpu_us(meter: Meter, play: Callable[[], object], requests: int) -> Callable[[], float]:
    def round_us_per_request() -> float:
        before_us = meter.cpu_us()
        play()
        return (meter.cpu_us() - before_us) / requests

    return round_us_per_request


def _with_long_logs(url: str) -> Limiter:
    limiter = patient_with_five(url, long_log_rules(), user="first")
    # A log has room for 32 groups; cost by cost, each of these fills one.
    for _ in range(LONG_LOG_GROUPS):
        if not limiter.check(user=ONE_USER, cost=LONG_LOG_LIMIT // 32):
            raise RuntimeError("the logs could not be filled")
    return limiter


class Measured:
    """One server, and the least processor time of each contestant on it."""

    def __init__(self, effort: Effort, product: Product) -> None:
        self.requests_per_call: dict[str, float] = {}
        with Server(product.binary) as server, asyncio.Runner() as runner:
            self._meter, self._crowd = Meter(server), Crowd(runner, TASKS)
            count = effort.pick(3_200, 640)
            same, many = [ONE_USER] * count, users(count)
            limiters = {name: patient_with_five(server.url, one_subject_rules(name), user="first") for name in TARGETS}
            contestants = {name: self._checks(name, limiter, same) for name, limiter in limiters.items()}
            contestants |= {_spread(name): self._checks(_spread(name), limiters[name], many) for name in TARGETS}
            limiters[LONG_LOGS] = _with_long_logs(server.url)
            contestants[LONG_LOGS] = self._checks(LONG_LOGS, limiters[LONG_LOGS], same)
            with PlainCounters(server.port, TASKS) as plain:
                contestants |= self._counters(plain, same)
                self.best_us = best_of_rounds(contestants, effort.rounds)
            require_store_decided(*limiters.values())

    def _checks(self, name: str, limiter: Limiter, subjects: Sequence[str]) -> Callable[[], float]:
        work = _check(limiter)

        def play() -> None:
            before = self._meter.calls()
            self._crowd.play(work, subjects)
            self.requests_per_call[name] = len(subjects) / self._meter.calls().since(before).for_checks

        return _cpu_us(self._meter, play, len(subjects))

    def _counters(self, plain: PlainCounters, subjects: Sequence[str]) -> Mapping[str, Callable[[], float]]:
        requests = [request_bytes(user) for user in subjects]
        return {
            PLAIN: _cpu_us(self._meter, lambda: plain.apart(requests), len(requests)),
            PLAIN_TOGETHER: _cpu_us(self._meter, lambda: plain.together(requests, TASKS), len(requests)),
        }


def _spread(algorithm: str) -> str:
    return f"{algorithm}, many subjects"


def _figures(effort: Effort, product: Product) -> list[Figure]:
    measured = Measured(effort, product)
    best_us = measured.best_us

    def figure(ours: str, shown: str, theirs: str = PLAIN, target: float | None = None) -> Figure:
        raw: dict[str, float | str] = {f"{name} µs": round(best_us[name], 2) for name in (ours, theirs)}
        raw["requests a call"] = round(measured.requests_per_call[ours], 1)
        return Figure(NAME, product.named(shown), best_us[ours] / best_us[theirs], "x", target, raw=raw)

    figures = []
    for name, target in TARGETS.items():
        shown = f"server CPU, 5 limits, {name}, {TASKS} tasks vs 5 x (INCRBY, PEXPIRE NX)"
        figures.append(figure(name, shown, target=product.target(target)))
        figures.append(figure(name, f"the same, {name} vs {TASKS} such requests in one pipeline", PLAIN_TOGETHER))
        figures.append(figure(_spread(name), f"the same, {name}, each request another of 1,000 subjects"))
    figures.append(figure(LONG_LOGS, f"the same, {LONG_LOGS}"))
    return figures


def run(effort: Effort) -> list[Figure]:
    return [figure for product in products() for figure in _figures(effort, product)]
