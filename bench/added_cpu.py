"""What a limiter adds to an application's processor time, beside what a peer adds to the same application."""

import threading
from collections.abc import Callable, Mapping

from bench.figure import Effort, Figure
from bench.timing import best_of_rounds

BARE = "bare"
TARGET_PART = 0.2
ROUNDS = 144
SETS = 12
ROUND_REQUESTS = 320
# `limits` sweeps its counters in memory on a thread of its own, a moment after the last hit.
SWEEPER = threading.Timer


def let_sweepers_finish() -> None:
    """Nobody must pay for another's background work."""
    for thread in threading.enumerate():
        if isinstance(thread, SWEEPER):
            thread.join()


def _settled(play: Callable[[], float]) -> Callable[[], float]:
    def settled() -> float:
        took_us = play()
        let_sweepers_finish()
        return took_us

    return settled


def best_cpu_us(make: Callable[[], Mapping[str, Callable[[], float]]], effort: Effort) -> dict[str, float]:
    """Processor microseconds a request; one of the contestants is the bare application. What is looked for is a small
    difference between large numbers: so rounds are short, that some may be undisturbed, and many. Where in memory an
    application happens to lie is worth a few microseconds: so each is made several times, all of them kept."""
    best_us: dict[str, float] = {}
    kept = []
    for _ in range(effort.pick(SETS, 1)):
        settled = {name: _settled(play) for name, play in make().items()}
        kept.append(settled)
        best_of_rounds(settled, 1)
        for name, took_us in best_of_rounds(settled, effort.pick(ROUNDS // SETS, 2)).items():
            best_us[name] = min(took_us, best_us.get(name, took_us))
    return best_us


def added_figure(
    bench: str, name: str, best_us: Mapping[str, float], ours: str, peer: str, target: float | None
) -> Figure:
    """Our added time as a part of the peer's."""
    added_us = {contestant: best_us[contestant] - best_us[BARE] for contestant in (ours, peer)}
    if added_us[peer] <= 0:
        raise RuntimeError(f"{peer} seems to cost nothing: {best_us[peer]:.1f} µs, bare {best_us[BARE]:.1f} µs")
    return Figure(
        bench,
        name,
        added_us[ours] / added_us[peer],
        "x",
        target,
        raw={
            "bare CPU µs": round(best_us[BARE], 1),
            f"{ours} adds µs": round(added_us[ours], 1),
            f"{peer} adds µs": round(added_us[peer], 1),
        },
    )
