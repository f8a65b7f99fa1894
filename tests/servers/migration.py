"""Moving a slot from one primary to another, in steps that leave room for load between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.servers.ports import HOST
from tests.servers.server import Server
from tests.servers.topology import identity_of

MIGRATE_TIMEOUT_MS = 5_000


def migrate(slot: int, source: Server, target: Server, primaries: Sequence[Server], keys_a_step: int) -> Iterator[int]:
    """Yields how many keys the source still has in the slot: first all of them, at last 0, the slot open all the while.

    It is closed when the iteration ends. A caller that stops early leaves it open, like an operator who breaks off.
    """
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", identity_of(source))
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", identity_of(target))
    while left := int(source.command("CLUSTER", "COUNTKEYSINSLOT", slot)):
        yield left
        keys = source.command("CLUSTER", "GETKEYSINSLOT", slot, keys_a_step)
        if keys:
            source.command("MIGRATE", HOST, target.port, "", 0, MIGRATE_TIMEOUT_MS, "KEYS", *keys)
    yield 0
    # The target first: while only the source still claims the slot, its clients are sent on by ASK and not in circles.
    others = [server for server in primaries if server is not source and server is not target]
    for server in [target, source, *others]:
        server.command("CLUSTER", "SETSLOT", slot, "NODE", identity_of(target))
