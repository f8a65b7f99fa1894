"""A node that starts with a million rules on disk and everything else away."""

from bench.figure import Effort, Figure
from headgate.benchmarks.cold_start import cold_start

NAME = "control_start"
TARGET_S = 5.0


def run(effort: Effort) -> list[Figure]:
    rules = effort.pick(1_000_000, 10_000)
    found = cold_start(rules, effort.pick(3, 1))
    raw = {name.replace("_", " "): found[name] for name in ("ready_max_s", "snapshot_mb", "peak_mb", "rounds")}
    return [Figure(NAME, f"a node's cold start, {rules:,} rules on disk", found["ready_s"], "s", TARGET_S, raw=raw)]
