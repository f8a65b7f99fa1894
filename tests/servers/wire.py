"""A bare connection: no retries, no pool, no greeting, every byte the test's own."""

from __future__ import annotations

import socket

from tests.servers.closing import Closing
from tests.servers.ports import HOST

TIMEOUT_S = 10


class Wire(Closing):
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *words: str) -> None:
        parts = [f"*{len(words)}", *(f"${len(word.encode())}\r\n{word}" for word in words)]
        self._socket.sendall("".join(f"{part}\r\n" for part in parts).encode())

    def receive(self, count: int) -> bytes:
        """So many bytes, or fewer if the other side closes first."""
        got = b""
        while len(got) < count:
            more = self._socket.recv(count - len(got))
            if not more:
                break
            got += more
        return got

    def ask(self, *words: str, expect: bytes) -> None:
        self.send(*words)
        assert self.receive(len(expect)) == expect

    def is_silent(self, for_s: float) -> bool:
        self._socket.settimeout(for_s)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(TIMEOUT_S)
        return False

    def close(self) -> None:
        self._socket.close()
