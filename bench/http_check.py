"""`/v1/check` over keep-alive connections: against the same server answering nothing, and against plain C."""

import json
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figure import Effort, Figure
from bench.http_servers import Running, c_server, headgate_server
from bench.processes import compile_c, cpu_seconds, pin
from bench.rule_sets import HTTP_BODY

NAME = "http"
TARGET_CPU_TIMES = 1.6
TARGET_RATE_SHARE = 0.8
CONNECTIONS = 64
USERS = 4096
ROUND_S_MAX = 20
SERVER_CORE, LOAD_CORE = 0, 1


@dataclass(frozen=True)
class Round:
    cpu_us: float  # of the server, for each request
    requests_per_s: float
    server_busy: float  # share of one core
    load: dict[str, Any]


class Contestant:
    """One kind of request to one server."""

    def __init__(self, load: Path, pid: int, port: int, path: str, body: str | None) -> None:
        self._pid = pid
        self._command = [str(load), "--port", str(port), "--connections", str(CONNECTIONS), "--path", path]
        self._command += ["--seconds", str(ROUND_S_MAX)]
        if body is not None:
            self._command += ["--body", body, "--vary", str(USERS)]
        self.rounds: list[Round] = []

    def play(self, requests: int) -> None:
        before_s = cpu_seconds(self._pid)
        with subprocess.Popen(
            [*self._command, "--requests", str(requests)], stdout=subprocess.PIPE, text=True
        ) as process:
            pin(process.pid, LOAD_CORE)
            output = process.communicate()[0]
        if process.returncode != 0:
            raise RuntimeError(f"the load generator ended with status {process.returncode}: {output}")
        load = json.loads(output)
        cpu_s = cpu_seconds(self._pid) - before_s
        self.rounds.append(
            Round(
                cpu_s / load["requests"] * 1e6,
                load["requests_per_s"],
                min(1.0, cpu_s / load["seconds"]),
                load,
            )
        )

    @property
    def cpu_us(self) -> float:
        return min(r.cpu_us for r in self.rounds)

    @property
    def fastest(self) -> Round:
        return max(self.rounds, key=lambda r: r.requests_per_s)

    def raw(self, name: str) -> dict[str, float | str]:
        best = self.fastest
        return {
            f"{name} requests/s": round(best.requests_per_s),
            f"{name} CPU µs": round(self.cpu_us, 2),
            f"{name} CPU µs median": round(statistics.median(r.cpu_us for r in self.rounds), 2),
            f"{name} server busy": round(best.server_busy, 2),
            f"{name} p99 µs": best.load["p99_us"],
            f"{name} reply bytes": round(best.load["reply_bytes"]),
            "connections": CONNECTIONS,
        }


@contextmanager
def _contestants() -> Iterator[dict[str, Contestant]]:
    load = compile_c("load.c")
    with ExitStack() as stack:
        ours = stack.enter_context(headgate_server())
        plain_c = stack.enter_context(c_server())
        for server in (ours, plain_c):
            pin(server.pid, SERVER_CORE)

        def contestant(server: Running, path: str, body: str | None = None) -> Contestant:
            return Contestant(load, server.pid, server.port, path, body)

        yield {
            "check": contestant(ours, "/v1/check", HTTP_BODY),
            "empty": contestant(ours, "/healthz"),
            "empty POST": contestant(ours, "/v1/_empty", HTTP_BODY),
            "C check": contestant(plain_c, "/v1/check", HTTP_BODY),
            "C empty": contestant(plain_c, "/healthz"),
        }


def _played(effort: Effort) -> dict[str, Contestant]:
    requests = effort.pick(200_000, 10_000)
    with _contestants() as players:
        for player in players.values():
            player.play(requests // 10)
            player.rounds.clear()
        for _ in range(effort.rounds):
            for player in players.values():
                player.play(requests)
    return players


def run(effort: Effort) -> list[Figure]:
    players = _played(effort)
    check, empty, posted, plain_c = (players[name] for name in ("check", "empty", "empty POST", "C check"))

    def raw(*names: str) -> dict[str, float | str]:
        return {field: value for name in names for field, value in players[name].raw(name).items()}

    return [
        Figure(
            NAME,
            "/v1/check, 5 limits: server CPU a request vs an empty 200",
            check.cpu_us / empty.cpu_us,
            "x",
            TARGET_CPU_TIMES,
            raw=raw("check", "empty"),
        ),
        Figure(
            NAME,
            "the same vs an empty 200 to the same body",
            check.cpu_us / posted.cpu_us,
            "x",
            TARGET_CPU_TIMES,
            raw=raw("empty POST"),
        ),
        Figure(
            NAME,
            "/v1/check, 5 limits: requests/s vs a minimal C epoll server",
            check.fastest.requests_per_s / plain_c.fastest.requests_per_s,
            "x",
            TARGET_RATE_SHARE,
            at_least=True,
            raw=raw("C check", "C empty"),
        ),
        Figure(NAME, "the same, by server CPU a request", plain_c.cpu_us / check.cpu_us, "x"),
    ]
