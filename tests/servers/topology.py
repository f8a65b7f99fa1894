"""What a cluster's node believes of the cluster, read from CLUSTER NODES."""

from __future__ import annotations

from dataclasses import dataclass

from tests.servers.server import Server

UNSETTLED = {"handshake", "noaddr", "fail?"}


@dataclass(frozen=True)
class Seen:
    """One node, as another sees it."""

    identity: str
    flags: frozenset[str]
    primary: str | None
    slots: frozenset[int]

    @property
    def is_primary(self) -> bool:
        return "master" in self.flags

    @property
    def has_failed(self) -> bool:
        return "fail" in self.flags


def view_of(server: Server) -> dict[str, Seen]:
    """By node identity."""
    lines = server.command("CLUSTER", "NODES").decode().splitlines()
    return {seen.identity: seen for seen in map(_seen, lines)}


def identity_of(server: Server) -> str:
    identity: bytes = server.command("CLUSTER", "MYID")
    return identity.decode()


def is_settled(view: dict[str, Seen]) -> bool:
    return not any(seen.flags & UNSETTLED for seen in view.values())


def agreement(view: dict[str, Seen]) -> object:
    """What must be equal for nodes to be of one mind: who serves which slots, and who follows whom."""
    return {(seen.identity, seen.primary, seen.slots, seen.has_failed) for seen in view.values()}


def _seen(line: str) -> Seen:
    identity, _, flags, primary, _, _, _, _, *ranges = line.split()
    slots: set[int] = set()
    for text in ranges:
        if text.startswith("["):
            continue  # a slot on its way; it is still listed as owned
        first, _, last = text.partition("-")
        slots.update(range(int(first), int(last or first) + 1))
    following = None if primary == "-" else primary
    return Seen(identity, frozenset(flags.split(",")) - {"myself"}, following, frozenset(slots))
