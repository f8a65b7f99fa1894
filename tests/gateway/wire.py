"""A client that writes its requests by hand and sees every byte of the answers."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.gateway import strict
from tests.gateway.strict import Fields, Head
from tests.integration import http_node
from tests.integration.http_node import PATIENCE_S
from tests.servers.ports import HOST

PIECE_BYTES = 1_000_000


@dataclass(frozen=True)
class Reply:
    head: Head
    body: bytes
    trailers: Fields = ()

    @property
    def status(self) -> int:
        return self.head.status

    def header(self, name: str) -> str | None:
        return self.head.value(name)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str:
        """What a failure of the gateway's own says of itself."""
        assert self.header("content-type") == "application/problem+json", self
        told = self.json()
        assert told["status"] == self.status, told
        assert told["title"], told
        assert told["detail"], told
        return str(told["detail"])


class Wire(http_node.Wire):
    """A connection to the gateway. Whoever is told otherwise comes from another address of this machine."""

    @classmethod
    def to(cls, port: int, source: str = HOST) -> Wire:
        return cls(socket.create_connection((HOST, port), PATIENCE_S, source_address=(source, 0)))

    def head(self) -> Head:
        return strict.response_head(self.stream)

    def answer(self, method: str = "GET") -> Reply:
        """The next whole answer. Raises `Ended` when it ends before its length or its last chunk."""
        head = self.head()
        if method == "HEAD" or head.status < 200 or head.status in (204, 304):
            return Reply(head, b"")
        if head.value("transfer-encoding") is None and head.value("content-length") is None:
            return Reply(head, self.stream.read())
        message = strict.finish(self.stream, head)
        return Reply(head, message.body, message.trailers)

    def get(self, target: str = "/", *fields: str) -> Reply:
        self.send(request("GET", target, *fields))
        return self.answer()

    def send_what_is_taken(self, size: int) -> None:
        """A body of zeros, as far as the other side will have it."""
        with contextlib.suppress(OSError):
            for at in range(0, size, PIECE_BYTES):
                self.send(bytes(min(PIECE_BYTES, size - at)))

    def is_silent(self, seconds: float = 0.2) -> bool:
        """Nothing comes for so long, and the connection is there."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(PATIENCE_S)
        return False

    def has_ended(self) -> bool:
        """Nothing more came, and the gateway ended the connection."""
        return self.rest() == b""


def request(method: str, target: str, *fields: str, body: bytes = b"", host: str = "shop.example") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *fields]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def in_chunks(
    method: str, target: str, *chunks: bytes, trailers: tuple[str, ...] = (), fields: tuple[str, ...] = ()
) -> bytes:
    head = request(method, target, "Transfer-Encoding: chunked", *fields)
    return head + chunks_of(*chunks) + last_chunk(*trailers)


def chunks_of(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)


def last_chunk(*trailers: str) -> bytes:
    return b"0\r\n" + "".join(f"{trailer}\r\n" for trailer in trailers).encode("latin-1") + b"\r\n"
