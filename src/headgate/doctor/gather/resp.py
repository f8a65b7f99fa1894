"""Asking a Redis or Valkey a few questions, with the standard library alone: a node's installation has no driver.

Everything is bounded: the time of a whole conversation, the size of an answer, its depth.
"""

from __future__ import annotations

import socket
import ssl
import time
from types import TracebackType
from typing import Self

from headgate.dialling import dial
from headgate.doctor.gather.store_url import Login, Place, StoreUrl

Reply = str | int | list["Reply"] | None

ANSWER_BYTES_MAX = 4 * 2**20
ITEMS_MAX = 100_000
DEPTH_MAX = 8
LINE_BYTES_MAX = 64 * 1024


class Refused(Exception):
    """The server answered with an error; `code` is its first word."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class NotAStore(Exception):
    """What answers there does not speak the protocol."""


class Conversation:
    """One connection, and `timeout_s` for all that is said over it. Raises OSError, Refused or NotAStore."""

    def __init__(self, url: StoreUrl, place: Place, timeout_s: float, login: Login | None = None) -> None:
        self._end_s = time.monotonic() + timeout_s
        self._left = ANSWER_BYTES_MAX
        self._socket = _dial(url, place, timeout_s)
        self._stream = self._socket.makefile("rb")
        login = url.login if login is None else login
        try:
            if login.password is not None:
                self.ask("AUTH", *([login.user] if login.user else []), login.password)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def left_s(self) -> float:
        return self._end_s - time.monotonic()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, *words: str) -> Reply:
        left_s = self.left_s
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        encoded = [word.encode() for word in words]
        parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)]
        self._socket.sendall(b"".join(parts))
        self._left = ANSWER_BYTES_MAX
        return self._reply(0)

    def ask_map(self, *words: str) -> dict[str, str]:
        """An answer that is names and values by turns."""
        reply = self.ask(*words)
        flat = [str(item) for item in reply] if isinstance(reply, list) else []
        return dict(zip(flat[::2], flat[1::2], strict=False))

    def _reply(self, depth: int) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == "+":
            return rest
        if kind == "-":
            raise Refused(rest)
        try:
            number = int(rest)
        except ValueError:
            raise NotAStore(line[:40]) from None
        if kind == ":":
            return number
        if kind == "$":
            return None if number < 0 else self._bulk(number)
        if kind == "*" and number <= ITEMS_MAX and depth < DEPTH_MAX:
            return None if number < 0 else [self._reply(depth + 1) for _ in range(number)]
        raise NotAStore(line[:40])

    def _line(self) -> str:
        line = self._stream.readline(LINE_BYTES_MAX)
        self._spend(len(line))
        if not line:
            raise ConnectionResetError("it closed the connection")
        if not line.endswith(b"\r\n"):
            raise NotAStore(line[:40].decode("ascii", "replace"))
        return line[:-2].decode("utf-8", "replace")

    def _bulk(self, size: int) -> str:
        self._spend(size + 2)
        raw = self._stream.read(size + 2)
        if len(raw) < size + 2:
            raise ConnectionResetError("it closed the connection")
        return raw[:-2].decode("utf-8", "replace")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise NotAStore(f"an answer of more than {ANSWER_BYTES_MAX // 2**20} MiB")


def _dial(url: StoreUrl, place: Place, timeout_s: float) -> socket.socket:
    if not url.is_tls:
        return dial(place.where, timeout_s)
    context = ssl.create_default_context(cafile=url.ca)
    if url.cert is not None:
        context.load_cert_chain(url.cert, url.key, password="")
    return dial(place.where, timeout_s, context)
