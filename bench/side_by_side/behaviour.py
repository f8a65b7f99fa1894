"""What limiters do, seen from outside: what refusals cost, the most a window lets through, a store that hangs."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.side_by_side.work import OWN, ROOMY, SHARED, TIGHT, TIGHT_COUNT, TIGHT_S, TWO, Ask, NoAnswer
from tests.servers.server import Server

GREEDY_REQUESTS = 3 * OWN
# How long before and after a boundary a crowd comes; long enough for a slow limiter to answer all of one crowd.
MARGIN_S = 0.06
CROWD = 2 * TIGHT_COUNT
STEADY_PAUSE_S = TIGHT_S / (4 * TIGHT_COUNT)
STEADY_WINDOWS = 2
# Less than this part of its limit, and what was refused has been counted against the caller. Whoever counts fixed
# windows admits nothing until the next one begins: in two windows, not much more than one's worth.
STARVED_PART = 0.25
HANG_REQUESTS = 10
LET_GO_S_MAX = 30.0


# --- what a refused request burned


def burned(ask: Ask) -> int:
    """How many of the shared limit's hits are gone for nothing, after so many requests that their caller's own limit
    refused: others, all within theirs, then get less than is left."""
    greedy = sum(ask(TWO, "greedy") for _ in range(GREEDY_REQUESTS))
    others = sum(ask(TWO, f"other-{number // OWN}") for number in range(SHARED))
    return SHARED - greedy - others


def says_burned(hits: int, kept_part: float | None) -> str:
    """`kept_part` is what a caller that never stops asking still gets of its limit."""
    refused = GREEDY_REQUESTS - OWN
    shared = "nothing" if hits <= 0 else f"the shared limit, {hits} of {refused} times"
    if kept_part is None or kept_part >= STARVED_PART:
        return shared
    return f"{shared}; its caller's own limit: {kept_part:.0%} of it is left to one that never stops asking"


# --- the worst window


@dataclass(frozen=True)
class Admitted:
    """When, at the earliest and at the latest, a request was admitted."""

    asked_s: float
    answered_s: float


@dataclass(frozen=True)
class Trace:
    admitted: Sequence[Admitted]
    # From here on it asked steadily, far more often than the limit allows; None if it did not.
    steady_s: float | None

    def worst(self, window_s: float = TIGHT_S) -> int:
        """The most that were surely admitted within less than a window: from one's asking to another's answer."""
        return max((self._within(first, window_s) for first in self.admitted), default=0)

    def kept_part(self) -> float | None:
        """Of what the limit allows in that time."""
        if self.steady_s is None:
            return None
        steady = sum(one.asked_s >= self.steady_s for one in self.admitted)
        return steady / (STEADY_WINDOWS * TIGHT_COUNT)

    def _within(self, first: Admitted, window_s: float) -> int:
        end_s = first.asked_s + window_s
        return sum(first.asked_s <= one.asked_s and one.answered_s < end_s for one in self.admitted)


class WallClock:
    """Some limiters count by its seconds."""

    def now_s(self) -> float:
        return time.time()

    def sleep_until(self, moment_s: float) -> None:
        time.sleep(max(0.0, moment_s - time.time()))


def trace(ask: Ask, caller: str, *, steadily: bool, clock: WallClock | None = None) -> Trace:
    """Comes when limiters are weakest: around the end of a window that began with the clock's second, around the end of
    one that began with the first request, and, for buckets that fill up again, on and on."""
    clock, admitted = clock or WallClock(), list[Admitted]()

    def come(moment_s: float, requests: int) -> None:
        clock.sleep_until(moment_s)
        for _ in range(requests):
            asked_s = clock.now_s()
            if ask(TIGHT, caller):
                admitted.append(Admitted(asked_s, clock.now_s()))

    boundary_s = -(-clock.now_s() // TIGHT_S) * TIGHT_S
    come(boundary_s + 2 * MARGIN_S, 1)
    for after_s in (-MARGIN_S, MARGIN_S / 2, 2.5 * MARGIN_S):
        come(boundary_s + TIGHT_S + after_s, CROWD)
    steady_s = clock.now_s()
    for step in range(int(STEADY_WINDOWS * TIGHT_S / STEADY_PAUSE_S) if steadily else 0):
        come(steady_s + step * STEADY_PAUSE_S, 1)
    return Trace(admitted, steady_s if steadily else None)


# --- a store that hangs


@dataclass
class _Hanging:
    """Requests one after the other while the store hangs. `answers` are said in words, with how long each took."""

    ask: Ask
    seconds_max: float
    answers: list[tuple[str, float]]

    def run(self) -> None:
        end_s = time.monotonic() + self.seconds_max
        while len(self.answers) < HANG_REQUESTS and time.monotonic() < end_s:
            start_s = time.monotonic()
            said = self._said()
            took_s = time.monotonic() - start_s
            if took_s < self.seconds_max:
                self.answers.append((said, took_s))

    def _said(self) -> str:
        try:
            return "admitted" if self.ask(ROOMY, "somebody") else "refused"
        except Exception as error:
            return f"an error ({error if isinstance(error, NoAnswer) else type(error).__name__})"

    def says(self) -> str:
        if not self.answers:
            return f"none within {self.seconds_max:g} s"
        kinds = list(dict.fromkeys(said for said, _ in self.answers))
        slowest_s = max(took_s for _, took_s in self.answers)
        in_all = f"; {len(self.answers)} of {HANG_REQUESTS} answered in {self.seconds_max:g} s"
        late = in_all if len(self.answers) < HANG_REQUESTS else ""
        return f"{', '.join(kinds)} after {_duration(slowest_s)} at most{late}"


def hang(store: Server, asks: Mapping[str, Ask], seconds_max: float) -> dict[str, str]:
    """What each says, all at once, for a hang is mostly waiting. Who still waits is let go by a store that is back."""
    hanging = {name: _Hanging(ask, seconds_max, []) for name, ask in asks.items()}
    threads = [threading.Thread(target=one.run, daemon=True) for one in hanging.values()]
    logging.disable()  # Frameworks log what they are about to answer with 500.
    store.stop_signal()
    try:
        for thread in threads:
            thread.start()
        end_s = time.monotonic() + seconds_max
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        return {name: one.says() for name, one in hanging.items()}
    finally:
        store.cont()
        for thread in threads:
            if thread.is_alive():
                thread.join(LET_GO_S_MAX)
        logging.disable(logging.NOTSET)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"
