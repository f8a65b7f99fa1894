"""Publishing: from the log of changes to the brokers of all regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.control.region import Heard, Region, RegionStatus, Shared
from headgate.feed.entry import Position
from headgate.storage.streams import PREFIX, Broker


class Publisher:
    """One thread a region: a dead one holds up no other, and is told everything when it is back."""

    def __init__(
        self,
        regions: Mapping[str, str],
        shared: Shared,
        *,
        key: bytes,
        prefix: str = PREFIX,
        heard: Heard = lambda *_: (),
        hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        """`regions` are names and URLs. Raises ConfigError for a URL or a key that cannot be used."""
        self._head = shared.head
        self._regions = [
            Region(name, Broker(url, key=key, prefix=prefix), shared, heard=heard, hurried=hurried)
            for name, url in regions.items()
        ]
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._unsubscribe = self._head.subscribe(self._wake)
        for region in self._regions:
            region.start()

    def stop(self) -> None:
        self._unsubscribe()
        for region in self._regions:
            region.wake()
        for region in self._regions:
            region.stop()

    def wake(self) -> None:
        for region in self._regions:
            region.wake()

    def status(self) -> list[RegionStatus]:
        return [region.status for region in self._regions]

    def brokers(self) -> dict[str, Any]:
        return {region.name: region.broker for region in self._regions}

    def _wake(self, _: Position) -> None:
        self.wake()
