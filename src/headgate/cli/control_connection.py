"""Where a control plane answers, and a connection to it."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit

from headgate.cli.control_errors import ControlUnreachable
from headgate.dialling import dial
from headgate.errors import ConfigError

DEFAULT_PORT = {"http": 80, "https": 443}
CONNECT_TIMEOUT_S = 10.0
# Small, so that a progress bar tells what was taken by the other side and not what waits in this kernel.
SEND_BUFFER_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """Where a control plane answers."""

    text: str
    host: str
    port: int
    tls: bool
    prefix: str
    socket_path: str | None

    @classmethod
    def parse(cls, text: str) -> Self:
        expected = "expected http://HOST:PORT, https://HOST:PORT or unix:///PATH"
        if not text.isprintable() or " " in text:
            raise ConfigError(f"{text!r}: {expected}")
        parts = urlsplit(text)
        if parts.username is not None or parts.password is not None:
            raise ConfigError(f"--control: {expected} without a user or password; the token has its own place")
        if parts.scheme == "unix":
            path = unquote(parts.path)
            if parts.netloc or not path.startswith("/"):
                raise ConfigError(f"{text}: {expected}")
            return cls(text, "localhost", 0, False, "", path)
        try:
            port = parts.port
        except ValueError:
            raise ConfigError(f"{text}: {expected}") from None
        if parts.scheme not in DEFAULT_PORT or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{text}: {expected}")
        tls = parts.scheme == "https"
        return cls(text, parts.hostname, port or DEFAULT_PORT[parts.scheme], tls, parts.path.rstrip("/"), None)


class Connection:
    """One connection, closed at the end whatever happened."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._open: http.client.HTTPConnection | None = None

    def __enter__(self) -> http.client.HTTPConnection:
        address = self._address
        try:
            dialled = _dial(address)
            dialled.settimeout(self._timeout_s)
        except OSError as error:
            raise ControlUnreachable(address.text, reason(error)) from None
        self._open = http.client.HTTPConnection(address.host, address.port or None, timeout=self._timeout_s)
        if address.tls and address.port == DEFAULT_PORT["https"]:
            self._open.default_port = address.port  # so that `Host` does not name it
        self._open.sock = dialled
        return self._open

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._open.close()


def _dial(address: Address) -> socket.socket:
    where = (address.host, address.port) if address.socket_path is None else address.socket_path
    dialled = dial(where, CONNECT_TIMEOUT_S, ssl.create_default_context() if address.tls else None)
    if address.socket_path is None:
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    return dialled


def readable(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])


def reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
        return "the connection was closed before the answer was there"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
