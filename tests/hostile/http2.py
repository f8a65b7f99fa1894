"""HTTP/2 by hand: a client that says what no library would."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.grpc.client import RATE_LIMIT
from tests.integration.http_node import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SHOULD_RATE_LIMIT = f"/{RATE_LIMIT}/ShouldRateLimit"
FRAME_HEAD_BYTES = 9
F = TypeVar("F", bound=Frame)


def head(path: str = SHOULD_RATE_LIMIT, **more: str) -> bytes:
    """A request's header block, without the table a peer would have to share."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "node",
        "content-type": "application/grpc",
        "te": "trailers",
    } | more
    return Encoder().encode([(name, value, True) for name, value in fields.items()])


def message(content: bytes) -> bytes:
    """As gRPC frames it."""
    return b"\0" + struct.pack(">I", len(content)) + content


def settings(**values: int) -> bytes:
    numbers = {"initial_window_size": SettingsFrame.INITIAL_WINDOW_SIZE}
    return SettingsFrame(settings={numbers[name]: value for name, value in values.items()}).serialize()


def headers(stream: int, block: bytes | None = None, flags: Iterable[str] = ("END_HEADERS",)) -> bytes:
    return HeadersFrame(stream, head() if block is None else block, flags=list(flags)).serialize()


def continuation(stream: int, block: bytes, flags: Iterable[str] = ()) -> bytes:
    return ContinuationFrame(stream, block, flags=list(flags)).serialize()


def data(stream: int, content: bytes, flags: Iterable[str] = ()) -> bytes:
    return DataFrame(stream, content, flags=list(flags)).serialize()


def reset(stream: int, code: int = 8) -> bytes:
    return RstStreamFrame(stream, error_code=code).serialize()


def ping(content: bytes = b"headgate") -> bytes:
    return PingFrame(0, content).serialize()


def window_update(stream: int, size: int) -> bytes:
    return WindowUpdateFrame(stream, window_increment=size).serialize()


def raw_frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    """Any frame at all, right or wrong."""
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


def call(stream: int, content: bytes, path: str = SHOULD_RATE_LIMIT) -> bytes:
    return headers(stream, head(path)) + data(stream, message(content), ["END_STREAM"])


@dataclass
class Answer:
    """Of one call: its headers with the trailers, and its messages as they were framed."""

    fields: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    reset: int | None = None


class Raw:
    """One connection. Reading ends politely or not at all: both are an end."""

    def __init__(self, connected: socket.socket, hello: bool = True) -> None:
        self.socket = connected
        self.socket.settimeout(PATIENCE_S)
        self._unread = b""
        self._decoder = Decoder()
        if hello:
            self.send(PREFACE + settings())

    @classmethod
    def to(cls, port: int, hello: bool = True) -> Raw:
        return cls(socket.create_connection(("127.0.0.1", port), PATIENCE_S), hello)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, what: bytes) -> bool:
        """False when the other side has gone."""
        try:
            self.socket.sendall(what)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def finish(self) -> bytes:
        """Says that nothing more will come, and hears the other side out."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        return self.rest()

    def abort(self) -> None:
        """Ends as a crashed client does: at once, with what was under way thrown away."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def frame(self) -> Frame | None:
        """The next one; None at the end."""
        while True:
            if len(self._unread) >= FRAME_HEAD_BYTES:
                parsed, length = Frame.parse_frame_header(memoryview(self._unread[:FRAME_HEAD_BYTES]))
                end = FRAME_HEAD_BYTES + length
                if len(self._unread) >= end:
                    parsed.parse_body(memoryview(self._unread[FRAME_HEAD_BYTES:end]))
                    self._unread = self._unread[end:]
                    return parsed
            try:
                chunk = self.socket.recv(65_536)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            self._unread += chunk

    def frames(self) -> list[Frame]:
        """All until the end."""
        return list(iter(self.frame, None))

    def until(self, kind: type[F], stream: int | None = None) -> F:
        """The next frame of a kind; what comes before it is passed over."""
        while (frame := self.frame()) is not None:
            if isinstance(frame, kind) and (stream is None or frame.stream_id == stream):
                return frame
        raise AssertionError(f"the connection ended without {kind.__name__}")

    def answer(self, stream: int) -> Answer:
        """Of calls made one after the other: header blocks share a table."""
        answer = Answer()
        while (frame := self.frame()) is not None:
            # Blocks of other streams, too, change the table.
            if isinstance(frame, HeadersFrame):
                decoded = {str(name): str(value) for name, value in self._decoder.decode(frame.data)}
                if frame.stream_id == stream:
                    answer.fields |= decoded
            if frame.stream_id != stream:
                continue
            if isinstance(frame, DataFrame):
                answer.content += frame.data
            if isinstance(frame, RstStreamFrame):
                answer.reset = frame.error_code
            if isinstance(frame, RstStreamFrame) or "END_STREAM" in frame.flags:
                return answer
        raise AssertionError("the connection ended without an answer")

    def goaway(self) -> GoAwayFrame | None:
        """What was said at the end, if anything."""
        return next((frame for frame in self.frames() if isinstance(frame, GoAwayFrame)), None)

    def rest(self) -> bytes:
        """Whatever comes until the end, frames or not."""
        got = [self._unread]
        with contextlib.suppress(ConnectionResetError):
            while chunk := self.socket.recv(65_536):
                got.append(chunk)
        return b"".join(got)
