"""Five limits of three subjects on three nodes of a cluster that are far away: one round trip, or several?

Each node is told of by the port of a proxy that holds every byte for 2.5 ms, each way: 5 ms a round trip, and what the
proxy itself takes.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from time import perf_counter_ns

from bench.figure import Effort, Figure
from bench.rule_sets import three_subject_rules
from bench.store_limiter import patient_with_five, require_store_decided
from bench.timing import no_collections, percentile
from headgate import Limiter
from headgate.limiter import Facts
from tests.servers.cluster import SHARDS, Cluster
from tests.servers.proxy_process import ProxyProcess
from tests.servers.slots import ranges, slot_of
from tests.servers.wire import Wire

NAME = "store_cluster"
TARGET_TIMES = 1.3
DELAY_S = 0.0025
PONG = b"+PONG\r\n"


@dataclass(frozen=True)
class Far:
    """The cluster, and a bare connection through each node's proxy."""

    cluster: Cluster
    wires: list[Wire]


@contextmanager
def _far_cluster() -> Iterator[Far]:
    with ExitStack() as stack:
        ports: list[int] = []

        def behind_proxy(port: int) -> int:
            proxy = stack.enter_context(ProxyProcess(port, delay_s=DELAY_S))
            ports.append(proxy.port)
            return proxy.port

        cluster = stack.enter_context(Cluster(replicas=0, announce=behind_proxy))
        yield Far(cluster, [stack.enter_context(Wire(port)) for port in ports])


def _on_shard(shard: int, kind: str, values: Iterator[str]) -> str:
    first, last = ranges(SHARDS)[shard]
    return next(value for value in values if first <= slot_of(f"hg1:{{{kind}:{value}}}") <= last)


def _facts() -> Facts:
    """A user, an organisation and an address that lie on three different shards."""
    return {
        "user": _on_shard(0, "user", (f"u{number}" for number in count())),
        "org": _on_shard(1, "org", (f"o{number}" for number in count())),
        "ip": _on_shard(2, "ip", (f"198.51.100.{number}" for number in range(256))),
    }


def _ping_one(far: Far, turn: int) -> int:
    start = perf_counter_ns()
    far.wires[turn % SHARDS].ask("PING", expect=PONG)
    return perf_counter_ns() - start


def _ping_all(far: Far) -> int:
    """All three at once, until the last has answered: what waiting for three costs by itself."""
    start = perf_counter_ns()
    for wire in far.wires:
        wire.send("PING")
    for wire in far.wires:
        wire.receive(len(PONG))
    return perf_counter_ns() - start


def _check(limiter: Limiter, facts: Facts) -> int:
    start = perf_counter_ns()
    limiter.check(**facts)
    return perf_counter_ns() - start


async def _acheck(limiter: Limiter, facts: Facts) -> int:
    start = perf_counter_ns()
    await limiter.acheck(**facts)
    return perf_counter_ns() - start


def _p50s_ns(far: Far, limiter: Limiter, facts: Facts, turns: int) -> dict[str, int]:
    """In turns, so that whatever slows the proxies slows all alike."""
    times_ns: dict[str, list[int]] = {}
    with no_collections(), asyncio.Runner() as runner:
        for turn in range(turns):
            times_ns.setdefault("PING", []).append(_ping_one(far, turn))
            times_ns.setdefault("check", []).append(_check(limiter, facts))
            times_ns.setdefault("PING all", []).append(_ping_all(far))
            times_ns.setdefault("acheck", []).append(runner.run(_acheck(limiter, facts)))
    return {name: percentile(sorted(times), 0.5) for name, times in times_ns.items()}


def _require_spread(far: Far) -> None:
    keys = [node.command("DBSIZE") for node in far.cluster.nodes]
    if min(keys) == 0:
        raise RuntimeError(f"the subjects do not lie on {SHARDS} nodes, which hold {keys} keys")


def run(effort: Effort) -> list[Figure]:
    facts = _facts()
    with _far_cluster() as far:
        limiter = patient_with_five(far.cluster.url, three_subject_rules("gcra"), **facts)
        p50s_ns = _p50s_ns(far, limiter, facts, effort.pick(200, 30))
        _require_spread(far)
        require_store_decided(limiter)
    raw: dict[str, float | str] = {f"{name} p50 ms": round(p50 / 1e6, 2) for name, p50 in p50s_ns.items()}
    raw["held by the proxy ms, each way"] = DELAY_S * 1e3
    return [
        Figure(
            NAME,
            f"{door}, 5 limits of 3 subjects on 3 far nodes: p50 vs a round trip",
            p50s_ns[door] / p50s_ns["PING"],
            "x",
            TARGET_TIMES,
            raw=raw,
        )
        for door in ("check", "acheck")
    ]
