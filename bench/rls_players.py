"""Players that make gRPC calls: the same message, the same streams, whoever answers."""

from collections.abc import Sequence

from bench.player import Player
from bench.processes import compile_c
from bench.rls_messages import ADMITTED_HEX, SHOULD_RATE_LIMIT, rate_limit_request, written

USERS = 1_000
CONNECTIONS, STREAMS = 4, 16


class Caller:
    """Builds the load generator once; every player of it sends from as many streams."""

    def __init__(self, connections: int = CONNECTIONS, streams: int = STREAMS, *, pinned: bool = True) -> None:
        self._command = [str(compile_c("grpc_load.c")), "--vary", str(USERS)]
        self._command += ["--connections", str(connections), "--streams", str(streams)]
        self._message = written("rls-request", rate_limit_request())
        self._pinned = pinned

    def player(self, pid: int, port: int, path: str = SHOULD_RATE_LIMIT, more: Sequence[str] = ()) -> Player:
        """`more` is said last, and so may replace the message."""
        command = [*self._command, "--port", str(port), "--path", path, "--message", str(self._message)]
        return Player([*command, "--expect", ADMITTED_HEX, *more], pid, pinned=self._pinned)
