"""Small programs that use a limiter, each run in an interpreter of its own.

`python -m tests.conformance.programs NAME URL`; they print what they saw, one JSON value a line, and how they end is
what is tested.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate import Limiter
from tests.conformance.stores import PATIENT_S

WINDOW = "365 days"
CHILD_TIMEOUT_S = 20
BUSY_FORKS = 25


def open_limiter(url: str) -> Limiter:
    return Limiter(store=url, store_deadline=PATIENT_S)


def ask(limiter: Limiter) -> list[Any]:
    decision = limiter.check_limit("k", 100, WINDOW)
    return [decision.path, decision.remaining]


async def aask(limiter: Limiter) -> list[Any]:
    decision = await limiter.acheck_limit("k", 100, WINDOW)
    return [decision.path, decision.remaining]


def say(value: Any) -> None:
    # In one write, so that a child's line and its parent's do not mix.
    os.write(1, json.dumps(value).encode() + b"\n")


def forked(work: Callable[[], None]) -> None:
    """Runs it in a child and says how that ended."""
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    say(["child", os.waitstatus_to_exitcode(status)])


def fork_after_use(url: str) -> None:
    limiter = open_limiter(url)
    say(ask(limiter))
    forked(lambda: say(ask(limiter)))
    say(ask(limiter))


def fork_after_async_use(url: str) -> None:
    limiter = open_limiter(url)
    say(asyncio.run(aask(limiter)))
    forked(lambda: say(asyncio.run(aask(limiter))))
    say(asyncio.run(aask(limiter)))


def fork_before_use(url: str) -> None:
    limiter = open_limiter(url)
    forked(lambda: say(ask(limiter)))
    say(ask(limiter))


def fork_of_a_fork(url: str) -> None:
    limiter = open_limiter(url)
    say(ask(limiter))

    def child() -> None:
        say(ask(limiter))
        forked(lambda: say(ask(limiter)))

    forked(child)
    say(ask(limiter))


def forked_child_that_exits_as_usual(url: str) -> None:
    """Through the interpreter's own end, with what the parent's threads left in it."""
    limiter = open_limiter(url)
    say(ask(limiter))
    pid = os.fork()
    if pid == 0:
        say(ask(limiter))
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    say(["child", os.waitstatus_to_exitcode(status)])


def multiprocessing_by_fork(url: str) -> None:
    limiter = open_limiter(url)
    say(ask(limiter))
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=lambda: say(ask(limiter))) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(CHILD_TIMEOUT_S)
        say(["child", child.exitcode])
    say(ask(limiter))


def fork_beside_busy_threads(url: str) -> None:
    """Whatever the parent's threads hold at that moment, its children are not kept waiting for it."""
    limiter = open_limiter(url)
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            limiter.check_limit("busy", 3, WINDOW)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(BUSY_FORKS):
        forked(lambda: say(ask(limiter)))
    is_over.set()
    for thread in threads:
        thread.join()


def deleted(url: str) -> None:
    limiter = open_limiter(url)
    say(ask(limiter))
    del limiter
    say(threads_left())


def threads_left() -> int:
    """Of the store, once there was time for them to end."""
    end_s = time.monotonic() + CHILD_TIMEOUT_S
    while (count := store_threads()) and time.monotonic() < end_s:
        time.sleep(0.01)
    return count


def store_threads() -> int:
    return sum(_name(task) == "headgate-store" for task in Path("/proc/self/task").iterdir())


def _name(task: Path) -> str | None:
    """None for a thread that ended while it was looked at."""
    try:
        return (task / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def idle_at_exit(url: str) -> None:
    limiter = open_limiter(url)
    say(ask(limiter))


def never_used(url: str) -> None:
    open_limiter(url)


def async_checks_under_way_at_exit(url: str) -> None:
    limiter = open_limiter(url)

    async def main() -> None:
        say(await aask(limiter))
        for _ in range(50):
            asyncio.get_running_loop().create_task(aask(limiter))
        await asyncio.sleep(0)

    asyncio.run(main())


def deleted_with_checks_under_way(url: str) -> None:
    limiter = open_limiter(url)

    async def main() -> None:
        nonlocal limiter
        say(await aask(limiter))
        tasks = [asyncio.get_running_loop().create_task(aask(limiter)) for _ in range(50)]
        await asyncio.sleep(0)
        del limiter
        await asyncio.gather(*tasks)

    asyncio.run(main())


def thread_waiting_at_exit(url: str) -> None:
    """A daemon thread is asking without end while the interpreter goes."""
    limiter = open_limiter(url)
    say(ask(limiter))

    def without_end() -> None:
        while True:
            ask(limiter)

    threading.Thread(target=without_end, daemon=True).start()
    time.sleep(0.05)


def hung_server_at_exit(url: str) -> None:
    """Goes on when it is told that the server hangs; leaves a thread and tasks behind that wait for it."""
    limiter = open_limiter(url)
    say(ask(limiter))
    sys.stdin.readline()
    threading.Thread(target=ask, args=(limiter,), daemon=True).start()

    async def main() -> None:
        for _ in range(50):
            asyncio.get_running_loop().create_task(aask(limiter))
        await asyncio.sleep(0.1)

    asyncio.run(main())


def answer_lines(url: str) -> None:
    """Checks once for each line read, `KEY LIMIT WINDOW ALGORITHM`, and says what time it takes it to be."""
    limiter = Limiter(store=url, store_deadline=PATIENT_S, refused_memory=False)
    for line in sys.stdin:
        key, limit, window, algorithm = line.split()
        decision = limiter.check_limit(key, int(limit), window, algorithm=algorithm)
        say([decision.path, decision.allowed, decision.retry_after, time.time()])


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
