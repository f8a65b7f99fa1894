"""HTTP/2 by hand, to the gateway."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from hpack import Decoder, Encoder
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame

from tests.hostile import http2
from tests.hostile.http2 import Raw

Field = tuple[bytes | str, bytes | str]
REFUSED_STREAM = 7


def fields(*more: Field, method: str = "GET", path: bytes | str = "/", authority: str = "shop.example") -> list[Field]:
    return [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *more]


def block(said: list[Field]) -> bytes:
    """Without the table a peer would have to share."""
    return Encoder().encode([(name, value, True) for name, value in said])


def opening(stream: int, said: list[Field], ends: bool = True) -> bytes:
    return http2.headers(stream, block(said), ["END_HEADERS", *(["END_STREAM"] if ends else [])])


data = http2.data
last = partial(http2.data, flags=["END_STREAM"])


@dataclass
class Response:
    """As far as it came: `ended` only when it came to its end."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    trailers: list[tuple[str, str]] = field(default_factory=list)
    reset: int | None = None
    ended: bool = False

    @property
    def status(self) -> int | None:
        return int(value) if (value := self.value(":status")) else None

    def value(self, name: str) -> str | None:
        found = [value for key, value in self.fields if key == name]
        assert len(found) <= 1, found
        return found[0] if found else None


class Connection:
    """Any number of streams at once, whose answers are read as they come. Windows are opened as bytes are read."""

    def __init__(self, port: int) -> None:
        self.raw = Raw.to(port, hello=False)
        self.raw.send(http2.PREFACE + http2.settings(initial_window_size=2**20) + http2.window_update(0, 2**30))
        self._decoder = Decoder()
        self.responses: dict[int, Response] = {}
        self.goaway: GoAwayFrame | None = None

    def close(self) -> None:
        self.raw.socket.close()

    def send(self, *frames: bytes) -> None:
        self.raw.send(b"".join(frames))

    def read(self) -> bool:
        """One frame. False at the connection's end."""
        frame = self.raw.frame()
        if frame is None:
            return False
        if isinstance(frame, GoAwayFrame):
            self.goaway = frame
        if frame.stream_id == 0:
            return True
        response = self.responses.setdefault(frame.stream_id, Response())
        if isinstance(frame, HeadersFrame):
            assert "END_HEADERS" in frame.flags
            decoded = [(str(name), str(value)) for name, value in self._decoder.decode(frame.data)]
            final = response.status is not None and response.status >= 200
            if final:
                response.trailers = decoded
            else:
                response.fields = decoded
        if isinstance(frame, DataFrame):
            response.body += frame.data
            if frame.data:
                self.send(http2.window_update(frame.stream_id, len(frame.data)))
        if isinstance(frame, RstStreamFrame):
            response.reset = frame.error_code
        response.ended = response.ended or "END_STREAM" in frame.flags
        return True

    def response(self, stream: int) -> Response:
        """Once it has come to an end of any kind."""
        while True:
            found = self.responses.setdefault(stream, Response())
            if found.ended or found.reset is not None or not self.read():
                return found

    def ask(self, stream: int, said: list[Field], body: bytes | None = None) -> Response:
        self.send(opening(stream, said, body is None), b"" if body is None else last(stream, body))
        return self.response(stream)
