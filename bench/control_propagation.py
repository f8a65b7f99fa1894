"""From a change sent to the control plane to its enforcement at the last of a hundred nodes."""

from bench.figure import Effort, Figure
from headgate.benchmarks.propagation import Fleet, propagation
from tests.servers.postgres import Postgres

NAME = "control_propagation"
TARGET_P50_MS = 50.0
TARGET_P99_MS = 500.0


def run(effort: Effort) -> list[Figure]:
    nodes, changes = effort.pick(100, 5), effort.pick(100, 5)
    figures = []
    found = propagation(Fleet(nodes), changes)
    said = f"one change → enforced at the last of {nodes} nodes"
    figures.append(Figure(NAME, f"{said}, median", found["p50_ms"], "ms", TARGET_P50_MS, raw=_raw(found)))
    figures.append(Figure(NAME, f"{said}, p99", found["p99_ms"], "ms", TARGET_P99_MS, raw=_raw(found)))
    with Postgres() as server:
        found = propagation(Fleet(nodes, database=server.empty_database()), changes)
    figures.append(Figure(NAME, f"{said}, from PostgreSQL, median", found["p50_ms"], "ms", raw=_raw(found)))
    found = propagation(Fleet(nodes, feed="http"), effort.pick(50, 5))
    figures.append(Figure(NAME, f"{said}, by HTTP without a broker, median", found["p50_ms"], "ms", raw=_raw(found)))
    return figures


def _raw(found: dict[str, float]) -> dict[str, float]:
    names = ("p50_ms", "p99_ms", "max_ms", "block_p50_ms", "rule_p50_ms", "answered_p50_ms", "changes")
    return {name.replace("_", " "): found[name] for name in names}
