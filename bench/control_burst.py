"""A hundred thousand changes in a minute: emergency blocks meanwhile, the nodes afterwards, and their checks."""

from bench.figure import Effort, Figure
from headgate.benchmarks.burst import Load, burst
from headgate.benchmarks.propagation import Fleet

NAME = "control_burst"
TARGET_BLOCK_P99_MS = 500.0
TARGET_CONVERGED_S = 5.0
TARGET_CHECKS_TIMES = 2.0
# A burst that the control plane did not keep up with is none.
TARGET_PER_S = 1_600.0


def run(effort: Effort) -> list[Figure]:
    nodes = effort.pick(100, 4)
    load = Load(effort.pick(100_000, 1_000), effort.pick(60, 3))
    found = burst(Fleet(nodes), load)

    def figure(
        name: str, measured: float, unit: str, target: float | None, *raw: str, at_least: bool = False
    ) -> Figure:
        shown = {word.replace("_", " "): found[word] for word in raw}
        return Figure(NAME, name, measured, unit, target, at_least, shown)

    times = ("blocks", "block_p50_ms", "block_p99_ms", "block_max_ms")
    checks = ("checks_quiet_p99_us", "checks_burst_p99_us", "checks_quiet_p999_us", "checks_burst_p999_us")
    return [
        figure(
            "changes a second in a burst, 100 to a request",
            found["changes_per_s"],
            "/s",
            TARGET_PER_S,
            *("changes", "seconds", "request_p50_ms", "request_p99_ms", "control_cpu_s", "nodes_cpu_s"),
            at_least=True,
        ),
        figure(
            f"an emergency block in the burst → the last of {nodes} nodes, p99",
            found["block_p99_ms"],
            "ms",
            TARGET_BLOCK_P99_MS,
            *times,
        ),
        figure("every node converged after the last change", found["converged_ms"] / 1000, "s", TARGET_CONVERGED_S),
        figure("checks' p99 in the burst vs before", found["checks_p99_ratio"], "x", TARGET_CHECKS_TIMES, *checks),
        figure("memory of the control plane at its peak", found["control_peak_mb"], "MB", None, "nodes_peak_mb"),
    ]
