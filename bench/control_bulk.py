"""A million rules into PostgreSQL as one change, and a page of them."""

from bench.figure import Effort, Figure
from headgate.benchmarks.bulk import FEW_RULES, PAGE, loaded, pages
from tests.servers.postgres import Postgres

NAME = "control_bulk"
TARGET_S = 300.0
TARGET_GB = 1.0
TARGET_PAGE_TIMES = 3.0
# As it comes: nothing is left out of what makes a commit durable.
DURABLE = (("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on"), ("shared_buffers", "128MB"))


def run(effort: Effort) -> list[Figure]:
    rules = effort.pick(1_000_000, 10_000)
    with Postgres(settings=DURABLE) as server:
        database, small_database = server.empty_database(), server.empty_database()
        with loaded(rules, database) as (large, applied), loaded(FEW_RULES, small_database) as (small, _):
            found = pages(large, rules, small, rounds=effort.rounds)
    raw = {name.replace("_", " "): applied[name] for name in ("rules_per_s", "file_mb", "control_idle_mb")}
    page = {name.replace("_", " "): value for name, value in found.items() if name.endswith(("_ms", "_ratio"))}
    said = f"{rules:,} rules applied to PostgreSQL as one change"
    return [
        Figure(NAME, said, applied["seconds"], "s", TARGET_S, raw=raw),
        Figure(NAME, f"{said}: the control plane's memory", applied["control_peak_mb"] / 1e3, "GB", TARGET_GB),
        Figure(
            NAME,
            f"a page of {PAGE} rules among {rules:,} vs among {FEW_RULES:,}",
            found["ratio"],
            "x",
            TARGET_PAGE_TIMES,
            raw=page,
        ),
    ]
