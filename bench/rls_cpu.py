"""Envoy's rate limit call with five descriptors, counters in memory, against an empty OK from the same gRPC server."""

import sys

from bench import h2load
from bench.figure import Effort, Figure, Unavailable
from bench.node import Node, node, rls_rules
from bench.player import Player, play_in_turns
from bench.rls_messages import EMPTY, SHOULD_RATE_LIMIT, rate_limit_request
from bench.rls_players import CONNECTIONS, STREAMS, Caller

NAME = "rls_cpu"
TARGET_CPU_TIMES = 1.5
ALONE_CONNECTIONS = 64


def _players(caller: Caller, pid: int, port: int) -> dict[str, Player]:
    return {"check": caller.player(pid, port), "empty": caller.player(pid, port, EMPTY, ("--expect", ""))}


def _figure(players: dict[str, Player], load: str, target: float | None) -> Figure:
    check, empty = players["check"], players["empty"]
    return Figure(
        NAME,
        f"RLS, 5 descriptors, {load}: server CPU a request vs an empty OK",
        check.cpu_us / empty.cpu_us,
        "x",
        target,
        raw={**check.raw("check"), **empty.raw("empty")},
    )


def _by_h2load(running: Node, requests: int, rounds: int) -> list[Figure]:
    try:
        command = h2load.command()
    except Unavailable as reason:
        print(f"{NAME}: without h2load: {reason}", file=sys.stderr)
        return []
    address, message = f"http://127.0.0.1:{running.grpc_port}", rate_limit_request()
    cpu_us: dict[str, list[float]] = {SHOULD_RATE_LIMIT: [], EMPTY: []}
    for _ in range(rounds):
        for path, found in cpu_us.items():
            found.append(h2load.play(command, running.pid, f"{address}{path}", message, requests).cpu_us)
    check_us, empty_us = (min(found) for found in cpu_us.values())
    raw: dict[str, float | str] = {"check CPU µs": round(check_us, 2), "empty CPU µs": round(empty_us, 2)}
    return [Figure(NAME, "the same load from h2load, one user", check_us / empty_us, "x", raw=raw)]


def run(effort: Effort) -> list[Figure]:
    requests = effort.pick(200_000, 10_000)
    with node(rls_rules(), threads=1, pinned=True) as running:
        many = _players(Caller(), running.pid, running.grpc_port)
        alone = _players(Caller(ALONE_CONNECTIONS, 1), running.pid, running.grpc_port)
        play_in_turns(many, requests, effort.rounds)
        play_in_turns(alone, requests, effort.rounds)
        witnessed = _by_h2load(running, requests, effort.pick(5, 1))
        running.require_decided()
    return [
        _figure(many, f"{CONNECTIONS} connections x {STREAMS} streams", TARGET_CPU_TIMES),
        *witnessed,
        _figure(alone, f"{ALONE_CONNECTIONS} connections x 1 stream", TARGET_CPU_TIMES),
    ]
