"""Messages of the gRPC benchmarks, written by hand: descriptors, and limits as Gubernator wants them; five of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.processes import OUT

SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
EMPTY = "/headgate.Bench/Empty"
GET_RATE_LIMITS = "/pb.gubernator.V1/GetRateLimits"
DOMAIN = "shop"
# ###### is where the load generator puts the user's number.
ENTRIES = (
    ("user", "u######"),
    ("org", "o17"),
    ("remote_address", "198.51.100.7"),
    ("path", "/api/v1/search"),
    ("api_key", "k17"),
)
PLENTY = 1_000_000_000
HOUR_MS = 3_600_000
# What an admitting answer starts with: overall_code OK; for Gubernator a first result of 19 bytes, whose status (0) is
# left out and which so begins with the limit. An error begins otherwise.
ADMITTED_HEX, GUBERNATOR_HEX = "0801", "0a1310"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _text_field(number: int, value: str) -> bytes:
    return _bytes_field(number, value.encode())


def _int_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def rate_limit_request(descriptors: Iterable[Iterable[tuple[str, str]]] | None = None) -> bytes:
    """Each descriptor is its entries; five of one entry each by default."""
    if descriptors is None:
        descriptors = ((entry,) for entry in ENTRIES)
    wanted = (
        b"".join(_bytes_field(1, _text_field(1, key) + _text_field(2, value)) for key, value in entries)
        for entries in descriptors
    )
    return _text_field(1, DOMAIN) + b"".join(_bytes_field(2, descriptor) for descriptor in wanted)


@dataclass(frozen=True)
class GubernatorLimit:
    name: str
    key: str
    count: int
    window_ms: int


def gubernator_request(limits: Iterable[GubernatorLimit] | None = None) -> bytes:
    """name, unique_key, hits, limit, duration; a token bucket, kept by the instance that is asked."""
    if limits is None:
        limits = (GubernatorLimit(f"{DOMAIN}-{key}", value, PLENTY, HOUR_MS) for key, value in ENTRIES)
    wanted = (
        _text_field(1, limit.name)
        + _text_field(2, limit.key)
        + _int_field(3, 1)
        + _int_field(4, limit.count)
        + _int_field(5, limit.window_ms)
        for limit in limits
    )
    return b"".join(_bytes_field(1, limit) for limit in wanted)


def written(name: str, message: bytes) -> Path:
    """As a file for the load generator."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.bin"
    path.write_bytes(message)
    return path
