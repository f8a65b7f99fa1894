"""Five limits in memory over gRPC: against Gubernator, one instance, which is asked for the same five at once."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figure import Effort, Figure
from bench.go_tools import GoProgram
from bench.http_servers import START_S_MAX, Running, stopping
from bench.node import node, rls_rules
from bench.player import play_in_turns
from bench.processes import OUT
from bench.rls_messages import GET_RATE_LIMITS, GUBERNATOR_HEX, gubernator_request, written
from bench.rls_players import CONNECTIONS, STREAMS, Caller
from tests.servers.ports import free_port

NAME = "rls_gubernator"
PROGRAM = GoProgram("github.com/gubernator-io/gubernator/v2", "cmd/gubernator", "v2.14.0")
TARGET_RATE_TIMES = 2.0


@contextmanager
def gubernator() -> Iterator[Running]:
    program, port, http_port = PROGRAM.path(), free_port(), free_port()
    address, members = f"127.0.0.1:{port}", f"127.0.0.1:{free_port()}"
    environment = {
        **{"GUBER_GRPC_ADDRESS": address, "GUBER_ADVERTISE_ADDRESS": address},
        "GUBER_HTTP_ADDRESS": f"127.0.0.1:{http_port}",
        # A cluster of this one alone, so that every limit is its own. It has to find itself.
        **{"GUBER_MEMBERLIST_ADDRESS": members, "GUBER_MEMBERLIST_BIND_ADDRESS": members},
        "GUBER_MEMBERLIST_KNOWN_NODES": members,
    }
    OUT.mkdir(exist_ok=True)
    with (OUT / "gubernator.log").open("w") as log:
        process = subprocess.Popen([str(program)], env={**os.environ, **environment}, stdout=log, stderr=log, text=True)
        with stopping(process):
            _wait_until_member(process, http_port)
            yield Running(process.pid, port)


def _wait_until_member(process: subprocess.Popen[str], http_port: int) -> None:
    """Before it is one, its answers are errors, and fast ones."""
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/v1/HealthCheck", timeout=1) as answer:
                if json.load(answer).get("peer_count"):
                    return
        except (urllib.error.URLError, OSError):
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"gubernator did not start; its log is {OUT / 'gubernator.log'}")
        time.sleep(0.05)


def run(effort: Effort) -> list[Figure]:
    caller = Caller(pinned=False)
    message = written("gubernator-request", gubernator_request())
    with gubernator() as peer, node(rls_rules()) as ours:
        asked = caller.player(
            peer.pid, peer.port, GET_RATE_LIMITS, ("--message", str(message), "--expect", GUBERNATOR_HEX)
        )
        players = {"headgate": caller.player(ours.pid, ours.grpc_port), "gubernator": asked}
        play_in_turns(players, effort.pick(100_000, 3_000), effort.rounds)
        ours.require_decided()
    return [
        Figure(
            NAME,
            f"RLS, 5 descriptors, memory, {CONNECTIONS} connections x {STREAMS} streams: requests/s vs Gubernator",
            players["headgate"].fastest.requests_per_s / players["gubernator"].fastest.requests_per_s,
            "x",
            TARGET_RATE_TIMES,
            at_least=True,
            raw={field: value for name, player in players.items() for field, value in player.raw(name).items()},
        )
    ]
