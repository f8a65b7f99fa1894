"""What all regions use, and what each tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.control.cuts import Cuts
from headgate.control.epochs import Epochs
from headgate.control.head import Head
from headgate.control.ledger import Ledger
from headgate.control.snapshots import Snapshots
from headgate.feed.entry import Position


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """`error` is why the region cannot be told now."""

    name: str
    where: str
    position: Position | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Shared:
    """One of each for all regions: the log is read once, a delta cut once, a snapshot made once."""

    ledger: Ledger
    head: Head
    cuts: Cuts
    snapshots: Snapshots
    epochs: Epochs
    log: Any
