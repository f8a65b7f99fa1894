"""A server whose first answer, a refusal, comes a byte at a time and, if it can, never ends."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.client.limited_app import HOST, PATIENCE_S
from tests.servers.closing import Closing

BYTE_S = 0.05
BYTES = 400
HEAD = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 60000\r\n\r\n"
GRANTED = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere"


class SlowServer(Closing):
    """`sent` is how much of the refusal's body was sent before the client hung up."""

    def __init__(self) -> None:
        self.sent = 0
        self._over = threading.Event()
        self._socket = socket.create_server((HOST, 0))
        self._socket.settimeout(PATIENCE_S)
        self.url = f"http://{HOST}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            self._refuse()
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(GRANTED)

    def _refuse(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(HEAD)
            while self.sent < BYTES and not self._over.wait(BYTE_S):
                connection.sendall(b"x")
                self.sent += 1

    def close(self) -> None:
        self._over.set()
        self._socket.close()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
