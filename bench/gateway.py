"""A node as the gateway: against nginx that proxies with `limit_req`, and against itself without any rule.

Gateways are on one core, the load generator and the upstream on the other; all have one thread.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.figure import Effort, Figure, Raw, Unavailable
from bench.http_servers import Running, c_server
from bench.nginx import CALLER, Zone, nginx
from bench.node import Node, node
from bench.player import LOAD_CORE, SERVER_CORE, Player, play_in_turns
from bench.processes import compile_c, pin
from bench.rls_messages import PLENTY
from bench.rule_sets import FIVE_LIMITS

NAME = "gateway"
TARGET_RATE_SHARE = 0.7
TARGET_ADDED_PERCENT = 15.0
CONNECTIONS = 64
# What is looked for is a small difference: so there are many rounds, that some may be undisturbed.
ROUNDS = 14
PATH = "/items/1"
NGINX, BARE, ONE, FIVE = "nginx", "no rule", "1 limit", f"{FIVE_LIMITS} limits"
# As roomy as it comes: no load generator gets near it.
NEVER_REFUSES = Zone("caller", CALLER, "1000000r/s", 1_000_000)


def one_limit() -> list[dict[str, Any]]:
    """What `limit_req` has: a bucket by address."""
    return [_rule("ip", "1000000/second burst 1000000")]


def five_limits() -> list[dict[str, Any]]:
    """Five rules with five different `by`, all of facts that every request has; the usual algorithm."""
    bys: list[str | list[str]] = ["ip", "endpoint", ["ip", "endpoint"], ["ip", "method"], "global"]
    return [_rule(by, f"{PLENTY}/hour") for by in bys]


def _rule(by: str | list[str], limit: str) -> dict[str, Any]:
    named = by if isinstance(by, str) else "-".join(by)
    return {"name": f"by-{named}", "match": {"endpoint": "/items/{id}"}, "by": by, "limit": limit}


def gateway_player(server: Running, path: str = PATH) -> Player:
    command = [str(compile_c("load.c")), "--port", str(server.port), "--connections", str(CONNECTIONS)]
    return Player([*command, "--path", path], server.pid)


@contextmanager
def upstream() -> Iterator[Running]:
    """The C server, beside the load generator: neither takes anything from the gateways."""
    with c_server() as server:
        pin(server.pid, LOAD_CORE)
        yield server


@contextmanager
def headgate_gateway(
    rules: list[dict[str, Any]], upstream_port: int, store: str = "memory://", *, patient: bool = True
) -> Iterator[tuple[Running, Node]]:
    to = f"http://127.0.0.1:{upstream_port}"
    with node(rules, "--upstream", to, store=store, threads=1, pinned=True, patient=patient) as running:
        yield Running(running.pid, running.http_port), running


def _played(effort: Effort) -> dict[str, Player]:
    requests, rounds = effort.pick(40_000, 2_000), effort.pick(ROUNDS, 2)
    with ExitStack() as stack:
        application = stack.enter_context(upstream())
        players: dict[str, Player] = {}
        try:
            peer = stack.enter_context(nginx(application.port, {"/": [NEVER_REFUSES]}))
        except Unavailable as reason:
            print(f"{NAME}: without nginx: {reason}", flush=True)
        else:
            pin(peer.pid, SERVER_CORE)
            players[NGINX] = gateway_player(peer)
        nodes = []
        for name, rules in {BARE: [], ONE: one_limit(), FIVE: five_limits()}.items():
            door, running = stack.enter_context(headgate_gateway(rules, application.port))
            players[name] = gateway_player(door)
            nodes += [running] if rules else []
        play_in_turns(players, requests, rounds)
        for running in nodes:
            running.require_decided()
    return players


def run(effort: Effort) -> list[Figure]:
    players = _played(effort)
    bare, one, five = (players[name] for name in (BARE, ONE, FIVE))

    def raw(*names: str) -> dict[str, float | str]:
        return {field: value for name in names for field, value in players[name].raw(name).items()}

    figures = [
        Figure(
            NAME,
            f"gateway, {FIVE_LIMITS} limits in memory and headers: CPU the limiter adds to that without a rule",
            (five.cpu_us / bare.cpu_us - 1) * 100,
            "%",
            TARGET_ADDED_PERCENT,
            raw=raw(BARE, FIVE),
        ),
        Figure(NAME, "the same, 1 limit", (one.cpu_us / bare.cpu_us - 1) * 100, "%", raw=raw(ONE)),
    ]
    return [*_beside_nginx(players[NGINX], one, five, raw), *figures] if NGINX in players else figures


def _beside_nginx(peer: Player, one: Player, five: Player, raw: Callable[..., Raw]) -> list[Figure]:
    def rate(ours: Player) -> float:
        return ours.fastest.requests_per_s / peer.fastest.requests_per_s

    return [
        Figure(
            NAME,
            f"gateway, 1 limit, {CONNECTIONS} connections: requests/s vs nginx proxying with limit_req",
            rate(one),
            "x",
            TARGET_RATE_SHARE,
            at_least=True,
            raw=raw(NGINX, ONE),
        ),
        Figure(NAME, "the same, by server CPU a request", peer.cpu_us / one.cpu_us, "x"),
        Figure(NAME, f"the same with {FIVE_LIMITS} limits and headers: requests/s", rate(five), "x"),
        Figure(NAME, f"the same with {FIVE_LIMITS} limits, by server CPU a request", peer.cpu_us / five.cpu_us, "x"),
    ]
