"""Envoy's rate limit call over a shared store: against envoyproxy/ratelimit on the same server under the same load."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from bench.figure import Effort, Figure
from bench.go_tools import GoProgram
from bench.http_servers import Running
from bench.node import node, rls_rules
from bench.player import Player, play_in_turns
from bench.rls_messages import DOMAIN, ENTRIES, PLENTY
from bench.rls_players import CONNECTIONS, STREAMS, Caller
from tests.servers.ratelimit import Ratelimit
from tests.servers.server import Server

NAME = "rls_ratelimit"
PROGRAM = GoProgram("github.com/envoyproxy/ratelimit", "src/service_cmd", "v1.4.1-0.20260122083618-3fb702589d36")
TARGET_RATE_TIMES = 2.0
TARGET_P99_TIMES = 0.5
# As it comes, and as its documentation advises for speed; the faster counts.
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "ratelimit": {},
    "ratelimit, pipelining": {"REDIS_PIPELINE_WINDOW": "150us"},
}


def limit(count: int, unit: str) -> dict[str, Any]:
    return {"rate_limit": {"unit": unit, "requests_per_unit": count}}


def _five_limits() -> list[dict[str, Any]]:
    return [{"key": key, **limit(PLENTY, "hour")} for key, _ in ENTRIES]


@contextmanager
def ratelimit(store: Server, descriptors: list[dict[str, Any]], settings: Mapping[str, str]) -> Iterator[Running]:
    """`descriptors` and their limits are those of the benchmarks' one domain, in its own words."""
    files = {"limits.yaml": yaml.safe_dump({"domain": DOMAIN, "descriptors": descriptors})}
    with (
        tempfile.TemporaryDirectory(prefix="hg-ratelimit-") as folder,
        Ratelimit(PROGRAM.path(), Path(folder), store, files, settings) as running,
    ):
        yield Running(running.process.pid, running.grpc_port)


def _figures(players: Mapping[str, Player]) -> list[Figure]:
    ours = players["headgate"]
    peer = max((players[name] for name in VARIANTS), key=lambda player: player.fastest.requests_per_s)
    quickest = min((players[name] for name in VARIANTS), key=lambda player: player.best("p99_us"))
    load = f"{CONNECTIONS} connections x {STREAMS} streams"
    return [
        Figure(
            NAME,
            f"RLS, 5 descriptors, Valkey, {load}: requests/s vs envoyproxy/ratelimit",
            ours.fastest.requests_per_s / peer.fastest.requests_per_s,
            "x",
            TARGET_RATE_TIMES,
            at_least=True,
            raw={field: value for name, player in players.items() for field, value in player.raw(name).items()},
        ),
        Figure(
            NAME,
            "the same load: p99 vs envoyproxy/ratelimit",
            ours.best("p99_us") / quickest.best("p99_us"),
            "x",
            TARGET_P99_TIMES,
            raw={f"{name} best p99 µs": player.best("p99_us") for name, player in players.items()},
        ),
    ]


def run(effort: Effort) -> list[Figure]:
    caller = Caller(pinned=False)
    with Server() as store, ExitStack() as stack:
        ours = stack.enter_context(node(rls_rules(), store=store.url))
        players = {"headgate": caller.player(ours.pid, ours.grpc_port)}
        for name, settings in VARIANTS.items():
            peer = stack.enter_context(ratelimit(store, _five_limits(), settings))
            players[name] = caller.player(peer.pid, peer.port)
        play_in_turns(players, effort.pick(60_000, 3_000), effort.rounds)
        ours.require_decided()
    return _figures(players)
