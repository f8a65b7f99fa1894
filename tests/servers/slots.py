"""Which of a cluster's slots a key is in."""

from __future__ import annotations

import binascii
from itertools import pairwise

SLOTS = 16_384


def slot_of(key: str | bytes) -> int:
    return binascii.crc_hqx(_hashed_part(key.encode() if isinstance(key, str) else key), 0) % SLOTS


def _hashed_part(key: bytes) -> bytes:
    """What stands between the first `{` and the next `}`, unless that is nothing."""
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return tag if opened and closed and tag else key


def ranges(parts: int) -> list[tuple[int, int]]:
    """All slots in so many runs, first and last slot of each."""
    edges = [SLOTS * part // parts for part in range(parts + 1)]
    return [(first, after - 1) for first, after in pairwise(edges)]
