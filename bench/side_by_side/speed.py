"""Rounds by turns: how fast everybody is, what a request costs the limiter and the store, and how often it is asked."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.figure import Effort
from bench.side_by_side.work import Contestant, Speed
from bench.store_meter import Meter
from tests.servers.ports import HOST
from tests.servers.server import Server

# A round lasts about as long for the fast as for the slow.
ROUND_MS, QUICK_ROUND_MS = 1_000, 60
ROUNDS, QUICK_ROUNDS = 5, 1
REQUESTS_MIN = 200
COUNTED_REQUESTS = 2_000
MONITOR_S_MAX = 20
FAILURE_CHARS_MAX = 200
END = "monitored-to-here"


@dataclass
class Speeds:
    """Of all rounds; the best of each counts."""

    rounds: list[Speed] = field(default_factory=list)
    store_cpu_us: list[float] = field(default_factory=list)
    store_calls: float | None = None
    failed: str = ""

    @property
    def requests_per_s(self) -> float:
        return max(one.requests_per_s for one in self.rounds)

    @property
    def cpu_us(self) -> float:
        return min(one.cpu_us for one in self.rounds)

    @property
    def p99_us(self) -> float:
        return min(one.p99_us for one in self.rounds)


def failure(error: Exception) -> str:
    """On one line: it stands under a table."""
    return " ".join(f"Could not be measured: {type(error).__name__}: {error}".split())[:FAILURE_CHARS_MAX]


def measure(contestants: Sequence[Contestant], effort: Effort, store: Server) -> dict[str, Speeds]:
    """The order rotates, so that nobody always follows the same one. A peer that fails is asked no more."""
    found = {one.name: Speeds() for one in contestants}
    requests: dict[str, int] = {}

    def warm_up(one: Contestant) -> None:
        requests[one.name] = _requests(one, effort)

    def play(one: Contestant) -> None:
        _play(one, requests[one.name], found[one.name], store)

    def count(one: Contestant) -> None:
        one.prove()
        found[one.name].store_calls = _calls_a_request(store, one) if one.has_store else None

    for turn, step in enumerate([warm_up, *[play] * effort.pick(ROUNDS, QUICK_ROUNDS), count]):
        first = turn % len(contestants)
        for one in (*contestants[first:], *contestants[:first]):
            if not found[one.name].failed:
                _do(step, one, found[one.name])
    return found


def _do(step: Callable[[Contestant], None], contestant: Contestant, to: Speeds) -> None:
    try:
        step(contestant)
    except Exception as error:
        if contestant.is_ours:
            raise
        to.failed = failure(error)


def _requests(contestant: Contestant, effort: Effort) -> int:
    """How many are a round's; finding out warms up as well."""
    requests, round_ms = REQUESTS_MIN, effort.pick(ROUND_MS, QUICK_ROUND_MS)
    for part in (10, 1):
        rate_per_s = contestant.play(requests).requests_per_s
        wanted = int(rate_per_s * round_ms / 1_000 / part)
        requests = min(contestant.requests_max, max(REQUESTS_MIN, wanted))
    return requests


def _play(contestant: Contestant, requests: int, to: Speeds, store: Server) -> None:
    meter = Meter(store)
    before_us = meter.cpu_us()
    to.rounds.append(contestant.play(requests))
    to.store_cpu_us.append((meter.cpu_us() - before_us) / to.rounds[-1].requests)


def _calls_a_request(store: Server, contestant: Contestant) -> float:
    """What reached the server from outside while it was played, by its own account (MONITOR). What scripts call is
    marked there. What a node does besides deciding does not count: its heartbeat, the one script that adds to a sorted
    set, and a look at how large a key is."""
    calls = 0
    with socket.create_connection((HOST, store.port), timeout=MONITOR_S_MAX) as watching:
        watching.sendall(b"MONITOR\r\n")
        with watching.makefile("rb") as said:
            said.readline()  # From here on it listens.
            made = contestant.play(COUNTED_REQUESTS).requests
            store.command("ECHO", END)
            while END.encode() not in (line := said.readline().lower()):
                if not line:
                    raise RuntimeError("the store broke off its account of its calls")
                if b" lua] " in line:
                    calls -= b'"zadd"' in line
                elif b'"memory" "usage"' not in line:
                    calls += 1
    return calls / made
