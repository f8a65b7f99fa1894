"""HTTP/1.1 as a strict peer reads it: what is not exactly as RFC 9112 has it is an error and never a guess."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Protocol

_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\.1\Z")
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-9][0-9][0-9]) ([\t -~\x80-\xff]*)\Z")
_FIELD = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?)[ \t]*\Z"
)
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")
LINE_BYTES_MAX = 65_536
BODY_BYTES_MAX = 64 * 2**20

Fields = tuple[tuple[str, str], ...]


class NotStrict(AssertionError):
    """Somebody sent what no strict peer would take."""


class Ended(Exception):
    """The other side ended the connection in mid-message."""


class Stream(Protocol):
    def readline(self, size: int, /) -> bytes: ...
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Head:
    """Of a request (`start` is method and target) or a response (status and reason). Names are in lower case."""

    start: tuple[str, str]
    fields: Fields

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def value(self, name: str) -> str | None:
        found = self.values(name)
        if len(found) > 1:
            raise NotStrict(f"{name} came {len(found)} times: {found}")
        return found[0] if found else None

    @property
    def method(self) -> str:
        return self.start[0]

    @property
    def target(self) -> str:
        return self.start[1]

    @property
    def status(self) -> int:
        return int(self.start[0])

    @property
    def length(self) -> int | None:
        """Of the body; None when it comes in chunks."""
        length, coding = self.value("content-length"), self.value("transfer-encoding")
        if coding is not None:
            if length is not None or coding.lower() != "chunked":
                raise NotStrict(f"framed by {length=} and {coding=}")
            return None
        if length is not None and not _LENGTH.match(length):
            raise NotStrict(f"content-length: {length}")
        return int(length or 0)


@dataclass(frozen=True)
class Message:
    head: Head
    body: bytes
    trailers: Fields = ()


def request_head(stream: Stream) -> Head | None:
    """None when the connection ended before it."""
    first = _line(stream, may_end=True)
    if first is None:
        return None
    found = _REQUEST_LINE.match(first)
    if found is None:
        raise NotStrict(f"not a request line: {first!r}")
    return Head((found[1].decode(), found[2].decode()), _fields(stream))


def response_head(stream: Stream) -> Head:
    first = _line(stream)
    found = _STATUS_LINE.match(first or b"")
    if found is None:
        raise NotStrict(f"not a status line: {first!r}")
    return Head((found[1].decode(), found[2].decode("latin-1")), _fields(stream))


def request(stream: Stream) -> Message | None:
    head = request_head(stream)
    return None if head is None else finish(stream, head)


def finish(stream: Stream, head: Head) -> Message:
    """The rest of a message whose length its head tells."""
    if head.length is None:
        return Message(head, *chunked(stream))
    return Message(head, exactly(stream, head.length))


def requests(raw: bytes) -> list[Message]:
    """All that a connection carried, to the last byte."""
    stream = io.BytesIO(raw)
    return list(iter(lambda: request(stream), None))


def chunked(stream: Stream) -> tuple[bytes, Fields]:
    """Body and trailers."""
    body = bytearray()
    while size := _chunk_size(stream):
        body += exactly(stream, size)
        if len(body) > BODY_BYTES_MAX:
            raise NotStrict("a body that never ends")
        if exactly(stream, 2) != b"\r\n":
            raise NotStrict("no line's end after a chunk")
    return bytes(body), _fields(stream)


def exactly(stream: Stream, size: int) -> bytes:
    got = stream.read(size)
    if len(got) < size:
        raise Ended(f"{len(got)} of {size} bytes")
    return got


def _chunk_size(stream: Stream) -> int:
    line = _line(stream) or b""
    if not _CHUNK_SIZE.match(line):
        raise NotStrict(f"not a chunk's size: {line!r}")
    return int(line, 16)


def _fields(stream: Stream) -> Fields:
    fields: list[tuple[str, str]] = []
    while line := _line(stream):
        found = _FIELD.match(line)
        if found is None:
            raise NotStrict(f"not a field: {line!r}")
        fields.append((found[1].decode().lower(), found[2].decode("latin-1")))
    return tuple(fields)


def _line(stream: Stream, may_end: bool = False) -> bytes | None:
    line = stream.readline(LINE_BYTES_MAX)
    if not line and may_end:
        return None
    if not line.endswith(b"\n"):
        if len(line) >= LINE_BYTES_MAX:
            raise NotStrict("a line that never ends")
        raise Ended(f"in mid-line: {line!r}")
    if not line.endswith(b"\r\n"):
        raise NotStrict(f"a bare line feed: {line!r}")
    return line[:-2]
