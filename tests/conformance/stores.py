"""Where counters can be: each kind of store, running, with what a test may look at behind the limiter's back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headgate import Limiter
from tests.servers.server import Server

# Nobody's answer is late by chance: these tests are about what is counted, on machines that may be busy.
PATIENT_S = 2.0
NODES_KEY = b"hg1:{nodes}"
# What nodes write that is no counter: that they are alive, and whether the server takes writes.
HOUSEKEEPING = (NODES_KEY, b"hg1:{probe:")
SCAN_COUNT = 1_000


@dataclass(frozen=True)
class Store:
    """A store's URL and the servers that hold its counters; none for memory."""

    name: str
    url: str
    holders: Callable[[], Sequence[Server]] = tuple

    def __str__(self) -> str:
        return self.name

    @property
    def is_shared(self) -> bool:
        return self.url != "memory://"

    @property
    def holds_all_in_one_place(self) -> bool:
        """Whether the limits of any request are decided in one step."""
        return len(self.holders()) < 2

    def limiter(self, rules: Any = None, **options: Any) -> Limiter:
        """One that waits for its store and always asks it."""
        patient: dict[str, Any] = {"store": self.url, "store_deadline": PATIENT_S, "refused_memory": False}
        return Limiter(rules, **patient | options)

    def flush(self) -> None:
        for server in self.holders():
            server.command("FLUSHALL")

    def all_keys(self) -> list[bytes]:
        """Of counters; the rest comes and goes with limiters of other tests."""
        found = (key for server in self.holders() for key in keys_of(server))
        return sorted(key for key in found if not key.startswith(HOUSEKEEPING))


def keys_of(server: Server) -> Iterator[bytes]:
    cursor = b"0"
    while True:
        cursor, keys = server.command("SCAN", cursor, "COUNT", SCAN_COUNT)
        yield from keys
        if cursor == b"0":
            return


def one(name: str, server: Server, url: str | None = None) -> Store:
    return Store(name, url or server.url, lambda: [server])
