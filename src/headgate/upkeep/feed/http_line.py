"""One connection to the control plane that is kept open between requests, bounded in time as a whole: a server that
sends a byte now and then meets no time-out of a socket."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping

from headgate import __version__
from headgate.upkeep.feed.source import SourceError

CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 1.0


class HttpLine:
    """One request at a time; others wait."""

    def __init__(self, is_tls: bool, host: str, port: int | None, headers: Mapping[str, str]) -> None:
        self._headers = {"User-Agent": f"headgate/{__version__}", **headers}
        if is_tls:
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=CONNECT_TIMEOUT_S, context=ssl.create_default_context()
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_over = False

    @contextlib.contextmanager
    def ask(
        self, method: str, target: str, timeout_s: float, body: bytes | None = None, silent_s: float | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer's head; whoever asks reads the rest within. It has `timeout_s` in all, and may be silent for
        `silent_s` of it. The connection stays only when all was read."""
        with self._lock:
            if self._is_closed:
                raise SourceError("is closed")
            self._is_over = False
            timer = threading.Timer(timeout_s, self._end)
            timer.daemon = True
            timer.start()
            is_whole = False
            try:
                answer = self._send(method, target, silent_s or timeout_s, body)
                yield answer
                is_whole = answer.isclosed()
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise SourceError(self._words(error, silent_s or timeout_s)) from None
            finally:
                timer.cancel()
                if not is_whole:
                    self._connection.close()

    def read(self, answer: http.client.HTTPResponse, bytes_max: int) -> bytes:
        raw = answer.read(bytes_max + 1)
        if len(raw) > bytes_max:
            raise SourceError(f"sent more than {bytes_max} bytes")
        return raw

    def close(self) -> None:
        """Ends what another thread waits for."""
        self._is_closed = True
        self._end()
        if self._lock.acquire(timeout=CLOSE_TIMEOUT_S):
            self._connection.close()
            self._lock.release()

    def _send(self, method: str, target: str, silent_s: float, body: bytes | None) -> http.client.HTTPResponse:
        connection = self._connection
        was_open = connection.sock is not None
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        try:
            return self._round_trip(method, target, silent_s, body, headers)
        except (ConnectionError, http.client.RemoteDisconnected):
            # A server may end a connection that was idle; that is no answer of its own. All requests may be repeated.
            if not was_open or self._is_over or self._is_closed:
                raise
            connection.close()
            return self._round_trip(method, target, silent_s, body, headers)

    def _round_trip(
        self, method: str, target: str, silent_s: float, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        connection = self._connection
        if connection.sock is None:
            connection.timeout = CONNECT_TIMEOUT_S
            connection.connect()
        if connection.sock is not None:
            connection.sock.settimeout(silent_s)
        connection.request(method, target, body=body, headers=headers)
        return connection.getresponse()

    def _end(self) -> None:
        self._is_over = True
        connected = self._connection.sock
        if connected is not None:
            with contextlib.suppress(OSError):
                # The plain one beneath TLS: its own `shutdown` would wait for the other side.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def _words(self, error: Exception, timeout_s: float) -> str:
        if self._is_closed:
            return "is closed"
        if self._is_over or isinstance(error, TimeoutError):
            return f"did not answer within {timeout_s:g} s"
        if isinstance(error, http.client.RemoteDisconnected):
            return "ended the connection"
        return f"cannot be asked: {error}" if str(error) else f"cannot be asked: {type(error).__name__}"
