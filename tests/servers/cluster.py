"""A cluster of three shards, formed by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.servers.binaries import valkey
from tests.servers.closing import Closing
from tests.servers.migration import migrate
from tests.servers.ports import BUS_OFFSET, HOST, free_cluster_port
from tests.servers.proxy import Proxy
from tests.servers.server import Server, replication_is_up
from tests.servers.slots import ranges, slot_of
from tests.servers.topology import Seen, agreement, identity_of, is_settled, view_of
from tests.servers.waiting import wait_for

SHARDS = 3
NODE_TIMEOUT_MS = 1_000
READY_TIMEOUT_S = 40
PROMOTION_TIMEOUT_S = 40

Announce = Callable[[int], int]


class Cluster(Closing):
    """Use as a context manager. Nodes 0 to 2 start as the shards' primaries, node 3 + n as a replica of shard n.

    `announce` is given each node's port and returns the one clients shall be told of instead; `proxied` puts a `Proxy`
    of this process there. Between themselves nodes speak directly, except that Redis, which knows one port only, also
    sends replication through it.
    """

    def __init__(
        self,
        binary: Path | None = None,
        *,
        replicas: int = 1,
        full_coverage: bool = False,
        node_timeout_ms: int = NODE_TIMEOUT_MS,
        proxied: bool = False,
        announce: Announce | None = None,
        args: Sequence[str] = (),
    ) -> None:
        self._open = contextlib.ExitStack()
        self._binary = binary or valkey()
        self._args = (*_options(full_coverage, node_timeout_ms), *args)
        self._announce = self._start_proxy if proxied else announce
        self._client_ports: list[int] = []
        self.nodes: list[Server] = []
        self.proxies: list[Proxy] = []
        try:
            for _ in range(SHARDS * (1 + replicas)):
                self._start_node()
            self._identities = [identity_of(node) for node in self.nodes]
            self._form()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Names every node, by the port clients are told of."""
        return f"redis+cluster://{','.join(f'{HOST}:{port}' for port in self._client_ports)}"

    def node(self, number: int) -> Server:
        return self.nodes[number]

    def shard(self, number: int) -> list[Server]:
        """Its nodes, in whatever roles."""
        return self.nodes[number::SHARDS]

    def primary(self, shard: int) -> Server:
        """The one the living nodes take for the shard's primary, even if it has just died."""
        view = view_of(self._living()[0])
        members = [node for node in self.shard(shard) if view[self._identity(node)].is_primary]
        # A deposed primary that never came back keeps its role in the others' eyes and has lost its slots.
        return max(members, key=lambda node: len(view[self._identity(node)].slots))

    def primary_of(self, key: str | bytes) -> Server:
        return self.primary_of_slot(slot_of(key))

    def primary_of_slot(self, slot: int) -> Server:
        view = view_of(self._living()[0])
        return next(node for node in self.nodes if slot in view[self._identity(node)].slots)

    def proxy_of(self, node: Server) -> Proxy:
        return self.proxies[self.nodes.index(node)]

    def kill_primary(self, shard: int) -> Server:
        """Returns the server killed; `restart()` it to have it come back, empty, as what the others make of it."""
        primary = self.primary(shard)
        primary.kill9()
        return primary

    def wait_promoted(
        self, shard: int, instead_of: Server | None = None, timeout_s: float = PROMOTION_TIMEOUT_S
    ) -> Server:
        """The shard's new primary, once all living nodes agree on it.

        Name the old one if it is neither dead nor hung.
        """

        def promoted() -> Server | None:
            primary = self.primary(shard)
            return primary if primary.is_answering and primary is not instead_of and self._agree() else None

        return wait_for(f"a new primary of shard {shard}", promoted, timeout_s, self._describe)

    def wait_settled(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Until all living nodes agree, serve, and every living replica has its primary's keys."""
        wait_for("a settled cluster", self._is_settled, timeout_s, self._describe)

    def migrate_slot(self, slot: int, to: int, keys_a_step: int = 10) -> Iterator[int]:
        """To the shard of that number, with real MIGRATEs: see `migration.migrate`. Load may run between the steps."""
        primaries = [self.primary(shard) for shard in range(SHARDS)]
        return migrate(slot, self.primary_of_slot(slot), primaries[to], primaries, keys_a_step)

    def close(self) -> None:
        self._open.close()

    def _start_proxy(self, port: int) -> int:
        proxy = self._open.enter_context(Proxy(port))
        self.proxies.append(proxy)
        return proxy.port

    def _start_node(self) -> None:
        port = free_cluster_port()
        client_port = self._announce(port) if self._announce else port
        args = (*self._args, *self._announcement(port, client_port))
        self._client_ports.append(client_port)
        self.nodes.append(self._open.enter_context(Server(self._binary, port=port, args=args)))

    def _announcement(self, port: int, client_port: int) -> list[str]:
        if client_port == port:
            return []
        if self._binary == valkey():
            return ["--cluster-announce-client-port", str(client_port)]
        # The bus port is otherwise reckoned from the announced one.
        return ["--cluster-announce-port", str(client_port), "--cluster-announce-bus-port", str(port + BUS_OFFSET)]

    def _form(self) -> None:
        for number, node in enumerate(self.nodes):
            # Distinct epochs spare the nodes a round of settling who came first.
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, (first, last) in zip(self.nodes, ranges(SHARDS), strict=False):
            node.command("CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    node.command("CLUSTER", "MEET", HOST, other.port)
        wait_for("all nodes have met", self._have_met, READY_TIMEOUT_S, self._describe)
        for number, replica in enumerate(self.nodes[SHARDS:]):
            replica.command("CLUSTER", "REPLICATE", self._identities[number % SHARDS])
        self.wait_settled()

    def _have_met(self) -> bool:
        views = [view_of(node) for node in self.nodes]
        return all(len(view) == len(self.nodes) and is_settled(view) for view in views)

    def _is_settled(self) -> bool:
        living = self._living()
        states = [node.command("CLUSTER", "INFO") for node in living]
        replicas = [node for node in living if node.command("ROLE")[0] == b"slave"]
        return (
            self._agree()
            and all(b"cluster_state:ok" in state for state in states)
            and len(replicas) == len(living) - SHARDS
            and all(map(replication_is_up, replicas))
            and all(_nodes_clients_see(node) == len(living) for node in living)
        )

    def _agree(self) -> bool:
        views: list[dict[str, Seen]] = [view_of(node) for node in self._living()]
        return all(map(is_settled, views)) and all(agreement(view) == agreement(views[0]) for view in views)

    def _living(self) -> list[Server]:
        return [node for node in self.nodes if node.is_answering]

    def _identity(self, node: Server) -> str:
        return self._identities[self.nodes.index(node)]

    def _describe(self) -> str:
        seen = [node.command("CLUSTER", "NODES").decode() for node in self._living()]
        return "\n\n".join([*seen, *(node.log_tail() for node in self.nodes)])


def _nodes_clients_see(server: Server) -> int:
    return len({bytes(node[2]) for _, _, *nodes in server.command("CLUSTER", "SLOTS") for node in nodes})


def _options(full_coverage: bool, node_timeout_ms: int) -> list[str]:
    settings = {
        "cluster-enabled": "yes",
        "cluster-node-timeout": str(node_timeout_ms),
        "cluster-require-full-coverage": "yes" if full_coverage else "no",
        # Replicas stay with their shard, and one that was cut off for long may still be promoted.
        "cluster-allow-replica-migration": "no",
        "cluster-replica-validity-factor": "0",
        # Redis hides from clients a replica that has received nothing yet, not even a ping.
        "repl-ping-replica-period": "1",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]
