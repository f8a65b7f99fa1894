"""However many callers there are and wherever they run, exactly the limit is admitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headgate import Limiter
from tests.conformance import hammer
from tests.conformance.hammer import Load, Processes, Told, loads
from tests.conformance.stores import Store

THREADS = 16
TASKS = 64
LIMIT = 300

Hammer = Callable[[Limiter, Load], Told]
HAMMERS: dict[str, tuple[int, Hammer]] = {
    "threads": (THREADS, lambda limiter, work: hammer.by_threads(limiter, work, THREADS)),
    "tasks": (TASKS, lambda limiter, work: asyncio.run(hammer.by_tasks(limiter, work, TASKS))),
    "both": (TASKS, lambda limiter, work: hammer.by_both(limiter, work, TASKS)),
}


def assert_exact(told: Told, work: Load, callers: int) -> None:
    admitted = sum(times for (_, allowed), times in told.items() if allowed)
    assert sum(told.values()) == callers * work.checks > work.limit
    assert {path for path, _ in told} <= {"store", "refused_memory"}
    assert admitted == work.limit


@pytest.mark.parametrize("how", HAMMERS)
def test_callers_of_one_process_are_admitted_up_to_the_limit(main_store: Store, how: str) -> None:
    callers, run = HAMMERS[how]
    limiter = main_store.limiter()
    for work in loads(LIMIT, callers):
        assert_exact(run(limiter, work), work, callers)


@pytest.mark.parametrize("name", ["unix", "redis", "sentinel", "ring"])
def test_callers_of_one_process_are_admitted_up_to_the_limit_everywhere(
    name: str, request: pytest.FixtureRequest
) -> None:
    store: Store = request.getfixturevalue(f"{name}_store")
    store.flush()
    work = hammer.load("gcra", LIMIT, TASKS)
    assert_exact(hammer.by_both(store.limiter(), work, TASKS), work, TASKS)


@pytest.fixture(params=["valkey", "cluster"])
def processes(request: pytest.FixtureRequest) -> Iterator[Processes]:
    store: Store = request.getfixturevalue(f"{request.param}_store")
    store.flush()
    with Processes(store.url) as processes:
        yield processes


def test_processes_together_are_admitted_up_to_the_limit(processes: Processes) -> None:
    for work in loads(LIMIT, hammer.PROCESSES):
        assert_exact(processes.hammer(work), work, hammer.PROCESSES)


def test_what_is_left_is_told_to_one_caller_each(main_store: Store) -> None:
    """Checks that go together are decided one after another, not all on the same state."""
    limiter = main_store.limiter()

    async def ask() -> list[int | None]:
        decisions = await asyncio.gather(*(limiter.acheck_limit("k", 40, "1 hour") for _ in range(64)))
        return [decision.remaining for decision in decisions if decision.allowed]

    assert sorted(left for left in asyncio.run(ask()) if left is not None) == list(range(40))


def test_requests_that_go_together_spend_all_their_limits_or_none(main_store: Store) -> None:
    """Each meets its user's limit and the organisation's; the latter runs out first."""
    users, each, together = 8, 5, 25
    rules = [
        {"name": "user", "by": "user", "limit": f"{each}/hour"},
        {"name": "org", "by": "org", "limit": f"{together}/hour"},
    ]
    limiter = main_store.limiter(rules)

    async def ask() -> list[tuple[str, bool]]:
        names = [f"u{number % users}" for number in range(users * each * 2)]
        decisions = await asyncio.gather(*(limiter.acheck(user=name, org="acme") for name in names))
        return [(name, decision.allowed) for name, decision in zip(names, decisions, strict=True)]

    admitted = [name for name, allowed in asyncio.run(ask()) if allowed]
    # Where a request's limits are on several servers, one may be refused for what another is about to be refunded.
    assert len(admitted) == together if main_store.holds_all_in_one_place else 0 < len(admitted) <= together
    for number in range(users):
        left = {item.rule: item.remaining for item in limiter.peek(user=f"u{number}", org="acme", cost=0).results}
        assert left == {"user": each - admitted.count(f"u{number}"), "org": together - len(admitted)}
