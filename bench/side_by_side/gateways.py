"""Gateways before the same application, each one thread on one core; the load and the application have the other."""

import http.client
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from itertools import count

from bench.gateway import gateway_player, headgate_gateway
from bench.http_servers import Running
from bench.nginx import CALLER, EVERYONE, Zone, nginx, nginx_version
from bench.player import SERVER_CORE
from bench.processes import pin
from bench.side_by_side.rls import played
from bench.side_by_side.work import (
    MEMORY,
    OWN,
    ROOMY,
    SHARED,
    TIGHT,
    TIGHT_COUNT,
    TIGHT_S,
    TWO,
    Ask,
    Contestant,
    NoAnswer,
    rules,
)
from tests.servers.ports import HOST
from tests.servers.server import Server

ANSWER_S_MAX = 60
OK, REFUSED = 200, 429
NEVER = "1000000r/s"


def _zones() -> dict[str, list[Zone]]:
    """The same limits as buckets. Its slowest rate is one a minute: what leaks meanwhile is less than one request."""
    a_second = f"{round(TIGHT_COUNT / TIGHT_S)}r/s"
    return {
        ROOMY: [Zone("roomy_own", CALLER, NEVER, 1_000_000), Zone("roomy_shared", EVERYONE, NEVER, 1_000_000)],
        TWO: [Zone("two_own", CALLER, "1r/m", OWN - 1), Zone("two_shared", EVERYONE, "1r/m", SHARED - 1)],
        TIGHT: [Zone("tight", CALLER, a_second, TIGHT_COUNT - 1)],
    }


def _ask(port: int) -> Ask:
    """Callers are told apart by address, and each has one of its own: all of 127.0.0.0/8 is this machine."""
    addresses: dict[str, str] = {}
    numbers = count(2)

    def ask(path: str, caller: str) -> bool:
        if caller not in addresses:
            addresses[caller] = f"127.0.0.{next(numbers)}"
        connection = http.client.HTTPConnection(HOST, port, ANSWER_S_MAX, source_address=(addresses[caller], 0))
        try:
            connection.request("GET", path)
            status = connection.getresponse().status
        finally:
            connection.close()
        if status not in (OK, REFUSED):
            raise NoAnswer(f"status {status}")
        return status == OK

    return ask


def headgate_gateways(application: Running, store: Server, closing: ExitStack) -> Iterator[Contestant]:
    """Each once with a deadline that waits for the store, and once as it comes."""
    named = f"**Headgate** {version('headgate')}, `headgate node --upstream`"
    for says, url in {f"{named}, memory": MEMORY, f"{named}, Valkey": store.url}.items():
        patient, running = closing.enter_context(headgate_gateway(rules("ip"), application.port, url))
        as_it_comes, _ = closing.enter_context(headgate_gateway(rules("ip"), application.port, url, patient=False))
        play = played(gateway_player(patient, ROOMY))
        yield Contestant(
            says, play, _ask(patient.port), True, url != MEMORY, _ask(as_it_comes.port), running.require_decided
        )


def nginx_gateway(application: Running, closing: ExitStack) -> Contestant:
    peer = closing.enter_context(nginx(application.port, _zones()))
    pin(peer.pid, SERVER_CORE)
    play = played(gateway_player(peer, ROOMY))
    return Contestant(f"nginx {nginx_version()}, `limit_req`, memory", play, _ask(peer.port))
