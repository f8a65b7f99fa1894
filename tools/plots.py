"""Draws what each algorithm admits, by asking the engine itself on a clock that is moved by hand.

    python tools/plots.py        # writes docs/plots/

Every algorithm meets the same arrivals under the same limit. The figures are drawn from data.json beside them, which
the tests make again and compare; each figure names the data it was drawn from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from headgate import Limiter
from headgate.testing import FakeClock

FOLDER = Path(__file__).parent.parent / "docs" / "plots"
DATA_FILE = FOLDER / "data.json"

COUNT = 100
WINDOW_S = 60
BURST = 20
# A multiple of the window, so that fixed windows begin at second 0 of every figure.
START_S = 60 * 1_000_000
# Ten looks a second: finer steps change nothing that could be seen.
STEPS_A_SECOND = 10
# How long a time a bar of the figures stands for.
BAR_S = 10

Admitted = list[int]
Data = dict[str, dict[str, Admitted]]


@dataclass(frozen=True)
class Candidate:
    label: str
    limit: str
    algorithm: str


CANDIDATES = (
    Candidate("sliding_window", f"{COUNT}/minute", "sliding_window"),
    Candidate("sliding_log", f"{COUNT}/minute", "sliding_log"),
    Candidate("gcra", f"{COUNT}/minute", "gcra"),
    Candidate(f"gcra, burst {BURST}", f"{COUNT}/minute burst {BURST}", "gcra"),
    Candidate("sliding_window_counter", f"{COUNT}/minute", "sliding_window_counter"),
    Candidate("fixed_window", f"{COUNT}/minute", "fixed_window"),
)


@dataclass(frozen=True)
class Arrivals:
    """How many requests come in each step of a tenth of a second."""

    name: str
    title: str
    steps: tuple[int, ...]


def steady(a_minute: int, seconds: int) -> tuple[int, ...]:
    """Evenly spaced: whole requests, as close to the rate as steps allow."""
    steps = seconds * STEPS_A_SECOND
    due = [a_minute * step // (60 * STEPS_A_SECOND) for step in range(steps + 1)]
    return tuple(later - sooner for sooner, later in pairwise(due))


def burst(requests: int, seconds: int) -> tuple[int, ...]:
    return (requests, *[0] * (seconds * STEPS_A_SECOND - 1))


def nothing(seconds: int) -> tuple[int, ...]:
    return (0,) * (seconds * STEPS_A_SECOND)


ARRIVALS = (
    Arrivals(
        "boundary",
        "150 requests just before a window ends, then 5 a second",
        nothing(59) + burst(150, 1) + steady(300, 180),
    ),
    Arrivals("overload", "5 requests a second, three times the limit", steady(300, 240)),
    Arrivals(
        "idle",
        "half the limit for two minutes, two minutes of nothing, then 150 at once",
        steady(50, 120) + nothing(120) + burst(150, 60),
    ),
)


def admitted(candidate: Candidate, arrivals: Arrivals) -> Admitted:
    """How many passed in each step."""
    clock = FakeClock(START_S)
    limiter = Limiter(clock=clock)
    passed = []
    for requests in arrivals.steps:
        checks = (limiter.check_limit("k", candidate.limit, algorithm=candidate.algorithm) for _ in range(requests))
        passed.append(sum(check.allowed for check in checks))
        clock.advance(1 / STEPS_A_SECOND)
    return passed


def at_its_rate(candidate: Candidate) -> Admitted:
    """How many of a client's first thousand requests pass that come evenly, at exactly the limit."""
    clock = FakeClock(START_S)
    limiter = Limiter(clock=clock)
    passed = 0
    for _ in range(1_000):
        passed += limiter.check_limit("k", candidate.limit, algorithm=candidate.algorithm).allowed
        clock.advance(WINDOW_S / COUNT)
    return [passed]


def summed(numbers: Sequence[int], width: int) -> Admitted:
    """So many at a time, added up."""
    return [sum(numbers[at : at + width]) for at in range(0, len(numbers), width)]


def rolling(numbers: Admitted, width: int) -> Admitted:
    """The sum of the last so many, at each of them."""
    sums = [0, *accumulate(numbers)]
    return [sums[at] - sums[max(0, at - width)] for at in range(1, len(sums))]


def make_data() -> Data:
    """`boundary`, `overload`, `idle`: admitted in each second. `worst`: the most in any window, in that order.
    `even`: of a thousand."""
    data: Data = {name: {} for name in (*(arrivals.name for arrivals in ARRIVALS), "worst", "even")}
    for candidate in CANDIDATES:
        data["worst"][candidate.label] = []
        for arrivals in ARRIVALS:
            steps = admitted(candidate, arrivals)
            data[arrivals.name][candidate.label] = summed(steps, STEPS_A_SECOND)
            data["worst"][candidate.label].append(max(rolling(steps, WINDOW_S * STEPS_A_SECOND)))
        data["even"][candidate.label] = at_its_rate(candidate)
    return data


def text_of(data: Data) -> str:
    """One line a series, so that a change can be read as a difference."""
    parts = []
    for name, series in data.items():
        lines = [f"    {json.dumps(label)}: {json.dumps(numbers)}" for label, numbers in series.items()]
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def digest_of(data: Data) -> str:
    return hashlib.sha256(text_of(data).encode()).hexdigest()


# --- drawing

# Read on white and on black: no background, mid-tone colours that stand out from both, and styles beside colours.

INK = "#7d7d7d"
BAR = "#e08a1e"
LINE = "#3d8fd1"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # Texts stay texts: smaller, and read out by screen readers.
    "svg.hashsalt": "headgate",
    "font.size": 9,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.transparent": True,
    "legend.frameon": False,
}


def panels(figure: Any) -> Iterator[tuple[Candidate, Any]]:
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for candidate, panel in zip(CANDIDATES, axes.flat, strict=True):
        panel.set_title(candidate.label, color=INK, fontsize=9)
        yield candidate, panel
    for panel in axes[1]:
        panel.set_xlabel("seconds")
    for panel in axes[:, 0]:
        panel.set_ylabel("requests")


def draw_arrivals(figure: Any, arrivals: Arrivals, series: dict[str, Admitted]) -> None:
    for candidate, panel in panels(figure):
        numbers = series[candidate.label]
        in_window = rolling(numbers, WINDOW_S)
        edges = range(0, len(numbers) + 1, BAR_S)
        asked = summed(arrivals.steps, BAR_S * STEPS_A_SECOND)
        panel.stairs(asked, edges, color=INK, alpha=0.5, label=f"asked in {BAR_S} seconds")
        panel.stairs(summed(numbers, BAR_S), edges, fill=True, color=BAR, label=f"admitted in {BAR_S} seconds")
        panel.plot(range(1, len(numbers) + 1), in_window, color=LINE, label=f"admitted in the last {WINDOW_S} seconds")
        panel.axhline(COUNT, color=INK, linewidth=0.9, linestyle="--", label=f"the limit, {COUNT} a minute")
        panel.set_ylim(0, 2.15 * COUNT)
        panel.set_xticks(range(0, len(numbers) + 1, WINDOW_S))
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, labelcolor=INK)
    figure.suptitle(arrivals.title, color=INK, fontsize=10)
    figure.tight_layout(rect=(0, 0.06, 1, 1))


def draw_worst(figure: Any, worst: dict[str, Admitted]) -> None:
    panel = figure.subplots()
    labels = [candidate.label for candidate in CANDIDATES][::-1]
    numbers = [max(worst[label]) for label in labels]
    bars = panel.barh(labels, numbers, color=LINE, height=0.6)
    panel.bar_label(bars, padding=4, color=INK)
    for times in (1, 2):
        panel.axvline(times * COUNT, color=INK, linewidth=0.9, linestyle="--")
    panel.set_xlim(0, 2.2 * COUNT)
    panel.set_xlabel(
        f"most requests admitted in any 60 seconds, of these three arrivals; the limit is {COUNT} a minute"
    )
    figure.tight_layout()


def write() -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    FOLDER.mkdir(exist_ok=True)
    data = make_data()
    DATA_FILE.write_text(text_of(data), encoding="utf-8")
    metadata = {"Date": None, "Creator": None, "Description": f"data {digest_of(data)}"}
    with matplotlib.rc_context(STYLE):
        for arrivals in ARRIVALS:
            figure = Figure(figsize=(9, 4.8))
            draw_arrivals(figure, arrivals, data[arrivals.name])
            figure.savefig(FOLDER / f"{arrivals.name}.svg", metadata=metadata)
        figure = Figure(figsize=(9, 2.8))
        draw_worst(figure, data["worst"])
        figure.savefig(FOLDER / "worst.svg", metadata=metadata)


if __name__ == "__main__":
    write()
