"""One kind of request to one server, played in rounds: its rate, its latencies, and the server's time."""

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.processes import cpu_seconds, pin

ROUND_S_MAX = 20
SERVER_CORE, LOAD_CORE = 0, 1


@dataclass(frozen=True)
class Round:
    cpu_us: float  # of the server, for each request
    requests_per_s: float
    server_busy: float  # share of one core
    load: dict[str, Any]


class Player:
    """`command` is a load generator's; it prints what it did as one JSON object."""

    def __init__(self, command: Sequence[str], pid: int, *, pinned: bool = True) -> None:
        self._command = [*command, "--seconds", str(ROUND_S_MAX)]
        self._pid = pid
        self._pinned = pinned
        self.rounds: list[Round] = []

    def play(self, requests: int) -> None:
        before_s = cpu_seconds(self._pid)
        command = [*self._command, "--requests", str(requests)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            if self._pinned:
                pin(process.pid, LOAD_CORE)
            output = process.communicate()[0]
        if process.returncode != 0:
            raise RuntimeError(f"the load generator ended with status {process.returncode}: {output}")
        load = json.loads(output)
        cpu_s = cpu_seconds(self._pid) - before_s
        self.rounds.append(
            Round(cpu_s / load["requests"] * 1e6, load["requests_per_s"], min(1.0, cpu_s / load["seconds"]), load)
        )

    @property
    def cpu_us(self) -> float:
        return min(r.cpu_us for r in self.rounds)

    @property
    def fastest(self) -> Round:
        return max(self.rounds, key=lambda r: r.requests_per_s)

    def best(self, latency: str) -> float:
        """The least of a latency over the rounds: `p99_us`."""
        return min(float(r.load[latency]) for r in self.rounds)

    def raw(self, name: str) -> dict[str, float | str]:
        best = self.fastest
        return {
            f"{name} requests/s": round(best.requests_per_s),
            f"{name} CPU µs": round(self.cpu_us, 2),
            f"{name} CPU µs median": round(statistics.median(r.cpu_us for r in self.rounds), 2),
            f"{name} server busy": round(best.server_busy, 2),
            f"{name} p99 µs": best.load["p99_us"],
            f"{name} reply bytes": round(best.load["reply_bytes"]),
        }


def play_in_turns(players: Mapping[str, Player], requests: int, rounds: int) -> None:
    """A short round for everybody first, to warm up; it does not count."""
    for player in players.values():
        player.play(max(1, requests // 10))
        player.rounds.clear()
    for _ in range(rounds):
        for player in players.values():
            player.play(requests)
