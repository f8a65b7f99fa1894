"""Messages of the gRPC benchmarks, written by hand: five descriptors, and five limits as Gubernator wants them."""

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
# What an admitting answer starts with: overall_code OK; for Gubernator, a first result (its status 0 is left out).
ADMITTED_HEX, GUBERNATOR_HEX = "0801", "0a"


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


def rate_limit_request() -> bytes:
    """One entry in each descriptor."""
    descriptors = (_bytes_field(1, _text_field(1, key) + _text_field(2, value)) for key, value in ENTRIES)
    return _text_field(1, DOMAIN) + b"".join(_bytes_field(2, descriptor) for descriptor in descriptors)


def gubernator_request() -> bytes:
    """name, unique_key, hits, limit, duration; a token bucket, kept by the instance that is asked."""
    limits = (
        _text_field(1, f"{DOMAIN}-{key}")
        + _text_field(2, value)
        + _int_field(3, 1)
        + _int_field(4, PLENTY)
        + _int_field(5, HOUR_MS)
        for key, value in ENTRIES
    )
    return b"".join(_bytes_field(1, limit) for limit in limits)


def written(name: str, message: bytes) -> Path:
    """As a file for the load generator."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.bin"
    path.write_bytes(message)
    return path
