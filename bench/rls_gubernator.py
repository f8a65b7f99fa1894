"""Five limits in memory over gRPC: against Gubernator, one instance, which is asked for the same five at once."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figure import Effort, Figure
from bench.go_tools import go_program
from bench.http_servers import START_S_MAX, Running, stopping
from bench.node import node, rls_rules
from bench.player import play_in_turns
from bench.processes import OUT
from bench.rls_messages import GET_RATE_LIMITS, GUBERNATOR_HEX, gubernator_request, written
from bench.rls_players import CONNECTIONS, STREAMS, Caller
from tests.servers.ports import free_port

NAME = "rls_gubernator"
PACKAGE = "github.com/gubernator-io/gubernator/v2/cmd/gubernator"
VERSION = "v2.13.0"
TARGET_RATE_TIMES = 2.0


@contextmanager
def _gubernator() -> Iterator[Running]:
    program, port = go_program(PACKAGE, VERSION), free_port()
    members = f"127.0.0.1:{free_port()}"
    environment = {
        **{"GUBER_GRPC_ADDRESS": f"127.0.0.1:{port}", "GUBER_HTTP_ADDRESS": f"127.0.0.1:{free_port()}"},
        # A cluster of this one alone, so that every limit is its own.
        **{"GUBER_MEMBERLIST_ADDRESS": members, "GUBER_MEMBERLIST_KNOWN_NODES": members},
    }
    with (OUT / "gubernator.log").open("w") as log:
        process = subprocess.Popen([str(program)], env={**os.environ, **environment}, stdout=log, stderr=log, text=True)
        with stopping(process):
            _wait_until_open(process, port)
            yield Running(process.pid, port)


def _wait_until_open(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + START_S_MAX
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"gubernator did not start; its log is {OUT / 'gubernator.log'}") from None
            time.sleep(0.05)


def run(effort: Effort) -> list[Figure]:
    caller = Caller(pinned=False)
    message = written("gubernator-request", gubernator_request())
    with _gubernator() as peer, node(rls_rules()) as ours:
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
