"""Resident memory for each live key, at the worst point while a table grows through its doublings."""

from bench.figure import Effort, Figure
from bench.processes import run_child

NAME = "memory"
TARGET_BYTES = 64.0
OURS = (
    ("gcra", "gcra"),
    ("fixed_window", "fixed_window"),
    ("sliding_window", "sliding_window, 1 hit a key"),
    ("sliding_window_5", "sliding_window, 5 hits a key"),
)
REFERENCES = (
    ("dict", "a dict of str to int"),
    ("throttled", "throttled-py gcra"),
    ("limits", "limits fixed_window"),
)


def _figure(effort: Effort, variant: str, shown: str, target: float | None) -> Figure:
    first, last = effort.pick(600_000, 30_000), effort.pick(1_300_000, 65_000)
    point = run_child("bench.memory_child", variant, first, last, effort.pick(10_000, 1_000))
    name = f"memory a live key, worst of {first / 1e6:g}M to {last / 1e6:g}M: {shown}"
    return Figure(NAME, name, point.pop("worst_peak_bytes"), "B", target, raw=point)


def run(effort: Effort) -> list[Figure]:
    figures = [_figure(effort, variant, shown, TARGET_BYTES) for variant, shown in OURS]
    return figures + [_figure(effort, variant, f"{shown} (reference)", None) for variant, shown in REFERENCES]
