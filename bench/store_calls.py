"""How many calls reach the server, by its own count: for five limits, and under a flood of refused checks."""

import asyncio
import time
from collections.abc import Callable, Iterator

from bench.crowd import Crowd, Work
from bench.figure import Effort, Figure
from bench.rule_sets import one_subject_rules
from bench.store_limiter import TASKS, patient, patient_with_five, require_store_decided, users
from bench.store_meter import Calls, Meter, Product, products
from headgate import Limiter
from tests.servers.server import Server

NAME = "store_calls"
TARGET_ALONE = 1.0
TARGET_TOGETHER = 0.99
TARGET_FLOOD = 10.0
FLOOD_STEPS = 500
STEP_S = 0.01
FLOOD_LIMIT = 1
FLOOD_WINDOW_S = 3_600

# One step of a flood: so many checks of the same key.
Step = Callable[[int], None]


def _check(limiter: Limiter) -> Work:
    acheck = limiter.acheck

    async def work(names: Iterator[str]) -> None:
        for user in names:
            await acheck(user=user)

    return work


def _counted(meter: Meter, play: Callable[[], object]) -> Calls:
    before = meter.calls()
    play()
    return meter.calls().since(before)


def _five_limits(effort: Effort, product: Product) -> list[Figure]:
    requests = users(effort.pick(10_000, 1_000))
    with Server(product.binary) as server, asyncio.Runner() as runner:
        meter, limiter = Meter(server), patient_with_five(server.url, one_subject_rules("gcra"), user="first")
        work = _check(limiter)

        def figure(name: str, play: Callable[[], object], target: float) -> Figure:
            calls = _counted(meter, play)
            raw: dict[str, float | str] = {"requests": len(requests), "heartbeats besides": calls.heartbeats}
            return Figure(
                NAME, product.named(name), calls.for_checks / len(requests), "calls", product.target(target), raw=raw
            )

        def one_by_one() -> None:
            for user in requests:
                limiter.check(user=user)

        Crowd(runner, TASKS).play(work, requests[:TASKS])
        figures = [
            figure("store calls a 5-limit check, one at a time", one_by_one, TARGET_ALONE),
            figure(
                "store calls a 5-limit acheck, one at a time",
                lambda: Crowd(runner, 1).play(work, requests),
                TARGET_ALONE,
            ),
            figure(
                f"store calls a 5-limit acheck, {TASKS} tasks",
                lambda: Crowd(runner, TASKS).play(work, requests),
                TARGET_TOGETHER,
            ),
        ]
        require_store_decided(limiter)
    return figures


def _flood(step: Step, steps: int, checks_a_step: int) -> None:
    """So many checks every hundredth of a second, or as fast as can be where that is too fast."""
    start_s = time.monotonic()
    for number in range(steps):
        step(checks_a_step)
        time.sleep(max(0.0, start_s + (number + 1) * STEP_S - time.monotonic()))


def _flood_sync(limiter: Limiter, key: str) -> Step:
    def step(checks: int) -> None:
        for _ in range(checks):
            limiter.check_limit(key, FLOOD_LIMIT, FLOOD_WINDOW_S)

    return step


def _flood_async(limiter: Limiter, key: str, crowd: Crowd) -> Step:
    async def work(keys: Iterator[str]) -> None:
        for each in keys:
            await limiter.acheck_limit(each, FLOOD_LIMIT, FLOOD_WINDOW_S)

    def step(checks: int) -> None:
        crowd.play(work, [key] * checks)

    return step


def _refused(effort: Effort) -> list[Figure]:
    steps, checks_a_step = effort.pick(FLOOD_STEPS, FLOOD_STEPS // 10), 100
    with Server() as server, asyncio.Runner() as runner:
        meter, limiter = Meter(server), patient(server.url)
        floods = {
            "check_limit, one thread": _flood_sync(limiter, "sync"),
            f"acheck_limit, {TASKS} tasks": _flood_async(limiter, "async", Crowd(runner, TASKS)),
        }
        limiter.check_limit("other", FLOOD_LIMIT, FLOOD_WINDOW_S)
        figures = [_flood_figure(meter, limiter, *flood, steps, checks_a_step) for flood in floods.items()]
        require_store_decided(limiter, or_else=("refused_memory",))
    return figures


def _flood_figure(meter: Meter, limiter: Limiter, name: str, step: Step, steps: int, checks_a_step: int) -> Figure:
    step(2)  # From here on the key is refused.
    allowed_before, start_s = limiter.stats()["allowed"], time.monotonic()
    calls = _counted(meter, lambda: _flood(step, steps, checks_a_step))
    took_s, checks = time.monotonic() - start_s, steps * checks_a_step
    shown = f"store calls for {checks // 1000}k checks of a refused key in {steps * STEP_S:g} s: {name}"
    raw: dict[str, float | str] = {
        "took s": round(took_s, 2),
        "allowed": limiter.stats()["allowed"] - allowed_before,
        "heartbeats besides": calls.heartbeats,
    }
    return Figure(NAME, shown, calls.for_checks, "calls", TARGET_FLOOD, raw=raw)


def run(effort: Effort) -> list[Figure]:
    figures = [figure for product in products() for figure in _five_limits(effort, product)]
    return figures + _refused(effort)
