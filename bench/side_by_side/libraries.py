"""Libraries in this process: a check is a function call. One thread, one request at a time."""

import functools
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from time import perf_counter_ns, process_time_ns

from bench.added_cpu import let_sweepers_finish
from bench.figure import Unavailable
from bench.side_by_side.work import (
    MEMORY,
    OWN,
    PLENTY,
    ROOMY,
    SHARED,
    TIGHT,
    TIGHT_COUNT,
    TWO,
    USERS,
    Ask,
    Contestant,
    Speed,
    rules,
    users,
)
from bench.store_limiter import PATIENT_DEADLINE_S, require_store_decided
from bench.timing import no_collections, percentile
from headgate import Limiter

# So many of a round's requests are made once more, each timed by itself.
TIMED_PART = 4
# A strategy that remembers every hit gets slower with each: it is measured while it remembers few.
LOGGED_REQUESTS_MAX = 3_000

# Makes a request on ROOMY for each caller, in its contestant's own most direct spelling.
Work = Callable[[Iterable[str]], None]


def played(work: Work) -> Callable[[int], Speed]:
    def play(requests: int) -> Speed:
        callers = users(requests)
        with no_collections():
            start, cpu_start = perf_counter_ns(), process_time_ns()
            work(callers)
            took_ns, cpu_ns = perf_counter_ns() - start, process_time_ns() - cpu_start
            times_ns = [_timed(work, (caller,)) for caller in callers[: max(1, requests // TIMED_PART)]]
        let_sweepers_finish()
        p99_us = percentile(sorted(times_ns), 0.99) / 1e3
        return Speed(requests / took_ns * 1e9, cpu_ns / requests / 1e3, p99_us, requests + len(times_ns))

    return play


def _timed(work: Work, callers: Sequence[str]) -> int:
    start = perf_counter_ns()
    work(callers)
    return perf_counter_ns() - start


def headgate(store: str) -> Contestant:
    """One call decides all limits of a request."""
    patient = Limiter(rules(), store=store, store_deadline=PATIENT_DEADLINE_S)
    as_it_comes = Limiter(rules(), store=store)

    def work(callers: Iterable[str]) -> None:
        check = patient.check
        for caller in callers:
            check(user=caller, path=ROOMY)

    def asking(limiter: Limiter) -> Ask:
        return lambda path, caller: limiter.check(user=caller, path=path).allowed

    name = f"**Headgate** {version('headgate')}"
    prove = functools.partial(require_store_decided, patient)
    return Contestant(name, played(work), asking(patient), True, store != MEMORY, asking(as_it_comes), prove)


def limits_library(store: str, strategy: str) -> Contestant:
    """One limit after the other, the shared one first. Strategies keep counters in different forms: their keys must not
    be the same."""
    import limits
    from limits.storage import storage_from_string
    from limits.strategies import STRATEGIES

    requests_max = LOGGED_REQUESTS_MAX if strategy == "moving-window" else Contestant.requests_max
    limiter = STRATEGIES[strategy](storage_from_string(store))
    roomy = (limits.parse(f"{PLENTY}/hour"), limits.parse(f"{PLENTY}/hour"))
    two, tight = (limits.parse(f"{SHARED}/day"), limits.parse(f"{OWN}/day")), limits.parse(f"{TIGHT_COUNT}/second")

    def work(callers: Iterable[str]) -> None:
        hit, (shared, own) = limiter.hit, roomy
        for caller in callers:
            _ = hit(shared, strategy, ROOMY) and hit(own, strategy, ROOMY, caller)

    def ask(path: str, caller: str) -> bool:
        if path == TIGHT:
            return limiter.hit(tight, strategy, path, caller)
        shared, own = two if path == TWO else roomy
        return limiter.hit(shared, strategy, path) and limiter.hit(own, strategy, path, caller)

    return Contestant(
        f"limits {version('limits')}, {strategy}",
        played(work),
        ask,
        has_store=store != MEMORY,
        requests_max=requests_max,
    )


def throttled_library(store: str) -> Contestant:
    """GCRA, its fastest algorithm; one limit after the other, the shared one first."""
    try:
        import throttled
    except ImportError:
        raise Unavailable("throttled-py is not installed: `make bench-peers` installs it") from None
    from throttled.rate_limiter import Quota, per_day, per_hour, per_sec

    counters = (
        throttled.MemoryStore(options={"MAX_SIZE": 10 * USERS})
        if store == MEMORY
        else throttled.RedisStore(server=store)
    )

    def limited_by(quota: Quota) -> throttled.Throttled:
        return throttled.Throttled(using=throttled.RateLimiterType.GCRA.value, quota=quota, store=counters)

    roomy = limited_by(per_hour(PLENTY, burst=PLENTY))
    shared, own = limited_by(per_day(SHARED, burst=SHARED)), limited_by(per_day(OWN, burst=OWN))
    tight = limited_by(per_sec(TIGHT_COUNT, burst=TIGHT_COUNT))

    def work(callers: Iterable[str]) -> None:
        limit = roomy.limit
        for caller in callers:
            _ = limit("everyone").limited or limit(caller).limited

    def ask(path: str, caller: str) -> bool:
        if path == TIGHT:
            return not tight.limit(f"{path} {caller}").limited
        first, second = (shared, own) if path == TWO else (roomy, roomy)
        return not (first.limit(f"{path} everyone").limited or second.limit(f"{path} {caller}").limited)

    return Contestant(f"throttled-py {version('throttled-py')}, gcra", played(work), ask, has_store=store != MEMORY)
