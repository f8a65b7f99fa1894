"""Five counters a request as one would write them by hand: INCRBY and PEXPIRE NX in one pipeline.

Bytes are made beforehand and sent on bare sockets, so that no client library keeps the server waiting.
"""

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.rule_sets import FIVE_LIMITS
from tests.servers.ports import HOST

WINDOW_MS = 3_600_000
COMMANDS = 2 * FIVE_LIMITS
READ_BYTES = 65_536
TIMEOUT_S = 10


def counter_key(user: str, number: int) -> str:
    return f"c:{user}:{number}"


def _command(*words: str) -> str:
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)


def request_bytes(user: str) -> bytes:
    keys = [counter_key(user, number) for number in range(FIVE_LIMITS)]
    pairs = (_command("INCRBY", key, "1") + _command("PEXPIRE", key, str(WINDOW_MS), "NX") for key in keys)
    return "".join(pairs).encode()


class PlainCounters:
    """So many connections, each with one request under way at a time."""

    def __init__(self, port: int, connections: int) -> None:
        self._sockets = [socket.create_connection((HOST, port), timeout=TIMEOUT_S) for _ in range(connections)]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each in self._sockets:
            each.close()

    def apart(self, requests: Sequence[bytes]) -> None:
        """Every connection sends its own request; then all replies are read."""
        width = len(self._sockets)
        for start in range(0, len(requests), width):
            batch = list(zip(self._sockets, requests[start : start + width], strict=False))
            for connection, request in batch:
                connection.sendall(request)
            for connection, _ in batch:
                _read_replies(connection, COMMANDS)

    def together(self, requests: Sequence[bytes], in_one: int) -> None:
        """So many requests in one pipeline of one connection, as if somebody had gathered them."""
        for start in range(0, len(requests), in_one):
            batch = requests[start : start + in_one]
            self._sockets[0].sendall(b"".join(batch))
            _read_replies(self._sockets[0], COMMANDS * len(batch))


def _read_replies(connection: socket.socket, count: int) -> None:
    """Replies are whole numbers, a line each."""
    while count > 0:
        got = connection.recv(READ_BYTES)
        if not got or b"-" in got:
            raise RuntimeError(f"the server answered {got[:100]!r}")
        count -= got.count(b"\n")
