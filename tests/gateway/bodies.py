"""Bodies of any size that need no room: bytes that are told by where they stand."""

from __future__ import annotations

import random

# Not a round number: a piece that is lost, doubled or swapped puts all that follows out of step.
_PERIOD = 1_048_573
_DOUBLED = random.Random(20_261_116).randbytes(_PERIOD) * 2


def piece(at: int, size: int) -> bytes:
    """At most a period long."""
    start = at % _PERIOD
    return _DOUBLED[start : start + min(size, _PERIOD)]


def body(size: int) -> bytes:
    return b"".join(piece(at, min(_PERIOD, size - at)) for at in range(0, size, _PERIOD))


class Checked:
    """Counts what comes as long as it is the body from its first byte on."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, part: bytes) -> None:
        for at in range(0, len(part), _PERIOD):
            expected = piece(self.size, min(_PERIOD, len(part) - at))
            assert part[at : at + _PERIOD] == expected, f"the body is another one after {self.size} bytes"
            self.size += len(expected)
