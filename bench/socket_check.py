"""`/v1/check` over the Unix socket at a steady rate, five limits in a shared store: its p99, and its parts."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns, sleep

from bench.figure import Effort, Figure
from bench.node import Node, node
from bench.player import Player, play_in_turns
from bench.processes import compile_c
from bench.rule_sets import HTTP_BODY, five_limit_rules
from bench.store_meter import Meter
from bench.timing import percentile
from tests.servers.server import Server
from tests.servers.wire import Wire

NAME = "socket_check"
RATE = 10_000
TARGET_P99_MS = 2.0
USERS = 1_000
CONNECTIONS = 32
PINGS = 2_000
PING_PAUSE_S = 0.0005


@dataclass(frozen=True)
class Stage:
    """One part of the time of a check. `budget_ms` is what the requirements grant it."""

    name: str
    p50_ms: float
    budget_ms: float
    raw: Mapping[str, float | str]


def _player(load: Sequence[str], target: Node, path: str, body: str | None = None) -> Player:
    command = [*load, "--unix", target.socket_path, "--path", path]
    return Player([*command, *(("--body", body, "--vary", str(USERS)) if body else ())], target.pid, pinned=False)


def _ping_us(port: int) -> tuple[float, float]:
    """p50 and p99 of an empty round trip to the store, on a connection of its own while nothing else is asked."""
    times_ns = []
    with Wire(port) as wire:
        for _ in range(PINGS):
            start = perf_counter_ns()
            wire.ask("PING", expect=b"+PONG\r\n")
            times_ns.append(perf_counter_ns() - start)
            sleep(PING_PAUSE_S)
    ordered = sorted(times_ns)
    return percentile(ordered, 0.5) / 1e3, percentile(ordered, 0.99) / 1e3


def _stages(players: Mapping[str, Player], meter: Meter, port: int) -> list[Stage]:
    socket, memory = players["empty"], players["memory"]
    ping_p50_us, ping_p99_us = _ping_us(port)
    script_us = meter.script_us()
    decide_us = max(0.0, memory.best("p50_us") - socket.best("p50_us"))
    return [
        Stage("the socket", socket.best("p50_us") / 1e3, 0.1, {"p99 µs": socket.best("p99_us")}),
        Stage("the network to the store", ping_p50_us / 1e3, 0.3, {"p99 µs": round(ping_p99_us, 1)}),
        Stage("the store", script_us["p50"] / 1e3, 0.4, {"p99 µs": script_us["p99"]}),
        Stage("deciding", decide_us / 1e3, 0.1, {"in memory, p50 µs with the socket": memory.best("p50_us")}),
    ]


def _figures(check: Player, stages: Sequence[Stage]) -> list[Figure]:
    p50_ms = check.best("p50_us") / 1e3
    rest_ms = p50_ms - sum(stage.p50_ms for stage in stages)
    raw: dict[str, float | str] = {
        "p50 ms": round(p50_ms, 3),
        "p99 ms, median of rounds": round(statistics.median(r.load["p99_us"] for r in check.rounds) / 1e3, 3),
        "p99.9 ms": round(check.best("p999_us") / 1e3, 3),
        "of p50, named by no stage ms": round(rest_ms, 3),
        "requests/s": round(check.fastest.requests_per_s),
        "node CPU µs": round(check.cpu_us, 1),
        "the load generator late by, p99 µs": check.best("send_lag_p99_us"),
        "rounds": len(check.rounds),
    }
    what = f"/v1/check over the Unix socket, 5 limits in Valkey, {RATE:,} requests/s"
    return [
        Figure(NAME, f"{what}: p99", check.best("p99_us") / 1e3, "ms", TARGET_P99_MS, raw=raw),
        *(
            Figure(NAME, f"of that p50: {stage.name}", stage.p50_ms, "ms", stage.budget_ms, raw=stage.raw)
            for stage in stages
        ),
    ]


def run(effort: Effort) -> list[Figure]:
    load = [str(compile_c("load.c")), "--connections", str(CONNECTIONS), "--rate", str(RATE)]
    rules = five_limit_rules()
    with Server() as store, node(rules, store=store.url) as shared, node(rules) as alone:
        players = {
            "store": _player(load, shared, "/v1/check", HTTP_BODY),
            "memory": _player(load, alone, "/v1/check", HTTP_BODY),
            "empty": _player(load, alone, "/healthz"),
        }
        meter = Meter(store)
        meter.forget_times()
        play_in_turns(players, RATE * effort.pick(4, 1), effort.rounds)
        shared.require_decided()
        stages = _stages(players, meter, store.port)
    return _figures(players["store"], stages)
