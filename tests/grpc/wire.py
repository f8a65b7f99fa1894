"""As much of Protocol Buffers as it takes to ask for descriptors, and to say what no library would."""

from __future__ import annotations

from collections.abc import Iterator


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and bytes only: more is not met on the way to the descriptors."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == 0:
            yield tag >> 3, value
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            assert at + value <= len(data)
            yield tag >> 3, data[at : at + value]
            at += value


def bytes_fields(data: bytes, wanted: int) -> list[bytes]:
    return [value for number, value in fields(data) if number == wanted and isinstance(value, bytes)]


def entry(key: bytes | str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


def rate_limit_request(domain: bytes | str, *descriptors: list[tuple[bytes | str, bytes | str]]) -> bytes:
    """A RateLimitRequest whose texts need not be texts."""
    written = [b"".join(field(1, entry(key, value)) for key, value in entries) for entries in descriptors]
    return field(1, domain) + b"".join(field(2, descriptor) for descriptor in written)
