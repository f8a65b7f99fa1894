"""The work that everybody is given: three paths, each with limits of its own, written once for all.

Every request on `ROOMY` and `TWO` meets two limits, its caller's own and one that all callers share.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Nothing is ever refused here: what is timed is admitting.
ROOMY = "/items/roomy"
PLENTY = 1_000_000_000
# A day's limits, so that no window ends meanwhile.
TWO = "/items/two"
OWN, SHARED = 5, 20
# One limit, the caller's own, short enough to be watched on a real clock.
TIGHT = "/items/tight"
TIGHT_COUNT, TIGHT_S = 10, 1.0
USERS = 1_000
MEMORY = "memory://"

# One request on a path by a caller: whether it was admitted. Whatever is no answer is raised.
Ask = Callable[[str, str], bool]


class NoAnswer(RuntimeError):
    """A request was neither admitted nor refused: an error that its client sees."""


@dataclass(frozen=True)
class Speed:
    """Of one round. CPU is that of the process that limits, and of nothing else."""

    requests_per_s: float
    cpu_us: float
    p99_us: float
    # How many were made for it in all.
    requests: int


@dataclass(frozen=True)
class Contestant:
    """`play` makes at least so many requests on `ROOMY` under the load of its group. Without `ask` it limits nothing:
    it is there to show what its group's requests cost anyway. Ours waits for the store longer than usual, so that what
    is seen is not the machine's pauses; what it does as it comes, when the store hangs, is `ask_hung`."""

    name: str
    play: Callable[[int], Speed]
    ask: Ask | None
    is_ours: bool = False
    has_store: bool = False
    ask_hung: Ask | None = None
    # Raises if what was played was not decided by the counters.
    prove: Callable[[], None] = lambda: None
    # Of a round.
    requests_max: int = 2_000_000


def rules(caller: str = "user") -> list[dict[str, Any]]:
    """For Headgate. Callers are told apart by this fact."""
    return [
        _rule("roomy-own", ROOMY, caller, f"{PLENTY}/hour"),
        _rule("roomy-shared", ROOMY, "global", f"{PLENTY}/hour"),
        _rule("two-own", TWO, caller, f"{OWN}/day"),
        _rule("two-shared", TWO, "global", f"{SHARED}/day"),
        _rule("tight", TIGHT, caller, f"{TIGHT_COUNT}/second"),
    ]


def _rule(name: str, path: str, by: str, limit: str) -> dict[str, Any]:
    return {"name": name, "match": {"endpoint": path}, "by": by, "limit": limit}


def users(count: int) -> list[str]:
    return [f"u{number % USERS:06}" for number in range(count)]
