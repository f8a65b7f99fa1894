"""What a subject with five limits takes in the server's memory, against five counters written by hand."""

from collections.abc import Callable

from bench.figure import Effort, Figure
from bench.plain_counters import PlainCounters, counter_key, request_bytes
from bench.rule_sets import FIVE_LIMITS, LONG_LOG_GROUPS, LONG_LOG_LIMIT, long_log_rules, one_subject_rules
from bench.store_limiter import patient_with_five, require_store_decided
from bench.store_meter import Meter, Product, products
from headgate import Limiter
from tests.servers.server import Server

NAME = "store_memory"
TARGET_BYTES = 200.0
IN_A_PIPELINE = 100

# Fills so many subjects, and names the keys of one.
Fill = Callable[[Server, int], list[str]]


def _checked(limiter: Limiter, subjects: int, times: int = 1, cost: int = 1) -> list[str]:
    for number in range(subjects):
        for _ in range(times):
            if not limiter.check(user=f"u{number}", cost=cost):
                raise RuntimeError("a check within its limits was refused")
    require_store_decided(limiter)
    return ["hg1:{user:u7}"]


def _ours(algorithm: str) -> Fill:
    def fill(server: Server, subjects: int) -> list[str]:
        return _checked(patient_with_five(server.url, one_subject_rules(algorithm), user="first"), subjects)

    return fill


def _long_logs(server: Server, subjects: int) -> list[str]:
    limiter = patient_with_five(server.url, long_log_rules(), user="first")
    return _checked(limiter, subjects, LONG_LOG_GROUPS, LONG_LOG_LIMIT // 32)


def _plain(server: Server, subjects: int) -> list[str]:
    with PlainCounters(server.port, 1) as plain:
        plain.together([request_bytes(f"u{number}") for number in range(subjects)], IN_A_PIPELINE)
    return [counter_key("u7", number) for number in range(FIVE_LIMITS)]


def _figures(product: Product, shown: str, fill: Fill, subjects: int, target: float | None = None) -> list[Figure]:
    with Server(product.binary) as server:
        meter = Meter(server)
        # Scripts and connections are in use before the first look at the memory.
        fill(server, 1)
        before = meter.used_bytes()
        keys = fill(server, subjects)
        used_bytes = (meter.used_bytes() - before) / subjects
        key_bytes = sum(map(meter.key_bytes, keys))
    name = f"server memory a subject, {shown}"
    return [
        Figure(NAME, product.named(f"{name}: MEMORY USAGE"), key_bytes, "B", target),
        Figure(NAME, product.named(f"{name}: used_memory"), used_bytes, "B", raw={"subjects": subjects}),
    ]


def run(effort: Effort) -> list[Figure]:
    subjects = effort.pick(10_000, 1_000)
    figures = []
    for product in products():
        target = product.target(TARGET_BYTES)
        figures += _figures(product, "5 x gcra", _ours("gcra"), subjects, target)
        figures += _figures(product, "5 x sliding_window, 1 hit", _ours("sliding_window"), subjects)
        long_logs = f"5 x sliding_window, {LONG_LOG_GROUPS} groups"
        figures += _figures(product, long_logs, _long_logs, subjects // 10)
        figures += _figures(product, "5 plain counters", _plain, subjects)
    return figures
