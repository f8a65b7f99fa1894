"""Many clients of one server in simulated time: the engine decides, `Conduct` waits, nobody sleeps."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate import Limiter
from headgate.client import RetryOptions
from headgate.client.conduct import Conduct, Trip
from headgate.testing import FakeClock

ADDRESS = ("http", "api.test", 80)
START_S = 1_700_000_000.0


@dataclass
class Outcome:
    """`sent_at_s` are the times of the requests that were let through, from the start."""

    statuses: list[int] = field(default_factory=list)
    refusals: int = 0
    held_s: list[float] = field(default_factory=list)
    sent_at_s: list[float] = field(default_factory=list)
    gave_up: list[str | None] = field(default_factory=list)


@dataclass
class Simulation:
    """`arrivals_s` says when callers want to send; each answer takes `latency_s` there and as long back."""

    limit: str
    arrivals_s: list[float]
    options: RetryOptions = field(default_factory=RetryOptions)
    latency_s: float = 0.01
    seed: int = 1
    algorithm: str | None = None
    draft: int = 11
    families: tuple[str, ...] | None = None
    processes: int = 1

    def run(self) -> Outcome:
        clock = FakeClock(START_S)
        limiter = Limiter(clock=clock)
        draw = random.Random(self.seed)
        conducts = [Conduct(self.options, draw.random) for _ in range(self.processes)]
        outcome = Outcome()
        events: list[tuple[float, int, Iterator[float]]] = []
        for number, arrival_s in enumerate(sorted(self.arrivals_s)):
            trip = conducts[number % self.processes].begin("GET", ADDRESS, f"/{number}", {}, can_replay=True)
            heapq.heappush(events, (START_S + arrival_s, number, self._requests(trip, limiter, clock, outcome)))
        while events:
            at_s, number, steps = heapq.heappop(events)
            clock.advance(max(0.0, at_s - clock.now()))
            pause_s = next(steps, None)
            if pause_s is not None:
                heapq.heappush(events, (max(at_s, clock.now()) + pause_s, number, steps))
        return outcome

    def _requests(self, trip: Trip, limiter: Limiter, clock: FakeClock, outcome: Outcome) -> Iterator[float]:
        with trip:
            while True:
                while (wait_s := trip.wait_s(clock.now())) > 0:
                    yield wait_s
                yield self.latency_s
                decision = limiter.check_limit("client", self.limit, algorithm=self.algorithm)
                headers = {
                    name.lower(): value
                    for name, value in decision.headers(draft=self.draft, families=self.families).items()
                }
                if decision.allowed:
                    outcome.sent_at_s.append(clock.now() - START_S)
                else:
                    outcome.refusals += 1
                yield self.latency_s
                if not trip.must_repeat(decision.status, headers, clock.now(), clock.now()):
                    report = trip.report()
                    outcome.statuses.append(decision.status)
                    outcome.held_s.append(report.waited_s)
                    outcome.gave_up.append(report.gave_up)
                    return
