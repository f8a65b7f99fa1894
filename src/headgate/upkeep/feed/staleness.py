"""How old the last proof is that the rules here are the newest, and when that is worth a word."""

from __future__ import annotations

import enum

from headgate.feed.entry import START, Position
from headgate.upkeep.feed.source import Pulse

STALE_LEAST_S = 30.0
STALE_POLLS = 2
# How far the clocks of control planes and nodes may be apart.
SKEW_MAX_US = 60 * 1_000_000
# From a warning to an error.
VERY_STALE_TIMES = 2


class Level(enum.IntEnum):
    FRESH = 0
    STALE = 1
    VERY_STALE = 2


def stale_after_s(poll_s: float) -> float:
    """`poll_s` is how often the source in use is asked at least."""
    return max(STALE_LEAST_S, STALE_POLLS * poll_s)


class Staleness:
    """Times are microseconds of this machine's clock. Without any proof, the age counts from where it was made."""

    def __init__(self, stale_s: float, since_us: int) -> None:
        self.stale_s = stale_s
        self.proved_us = since_us

    def prove(self, at_us: int) -> None:
        self.proved_us = max(self.proved_us, at_us)

    def age_s(self, now_us: int) -> float:
        """From a clock that was set back the age counts anew: nothing is fresh until that clock has caught up."""
        self.proved_us = min(self.proved_us, now_us)
        return (now_us - self.proved_us) / 1_000_000

    def level(self, now_us: int) -> Level:
        age_s = self.age_s(now_us)
        if age_s > VERY_STALE_TIMES * self.stale_s:
            return Level.VERY_STALE
        return Level.STALE if age_s > self.stale_s else Level.FRESH


class Pulses:
    """What pulses of the control plane prove.

    Its clock is not ours: that a pulse is newer than all before proves that it was made since we last looked. Only the
    first is measured by its time. One that is repeated proves nothing, nor does one of a position we do not have, or of
    another epoch. Of two control planes one has the slower clock, and its pulses are older than the other's: they count
    while they are not old by our own clock, which is as far as an attacker who plays them back can get.
    """

    def __init__(self) -> None:
        self._newest_us: int | None = None
        self._last_us: int | None = None

    def proof_us(self, pulse: Pulse, ours: Position, now_us: int) -> int | None:
        newest_us, last_us = self._newest_us, self._last_us
        self._last_us = pulse.at_us
        self._newest_us = pulse.at_us if newest_us is None else max(newest_us, pulse.at_us)
        if ours == START or pulse.position.epoch != ours.epoch or pulse.position.version > ours.version:
            return None
        if newest_us is None:
            return min(now_us, pulse.at_us)
        is_recent = pulse.at_us != last_us and abs(now_us - pulse.at_us) <= SKEW_MAX_US
        return now_us if pulse.at_us > newest_us or is_recent else None
