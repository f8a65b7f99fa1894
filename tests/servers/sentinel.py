"""A primary, its replica and three sentinels that watch them."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from tests.servers.binaries import valkey
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.server import Server, replication_is_up
from tests.servers.waiting import wait_for

NAME = "mymaster"
SENTINELS = 3
QUORUM = 2
DOWN_AFTER_MS = 1_000
FAILOVER_TIMEOUT_MS = 3_000
READY_TIMEOUT_S = 30
PROMOTION_TIMEOUT_S = 30
REJOIN_TIMEOUT_S = 30
# Sentinels look at their servers every 10 s and at each other every 2 s unless told otherwise. The ping period is well
# under DOWN_AFTER_MS, or a server just promoted is taken for dead; and over 200 ms, for a replica not looked at for
# five of them is not promoted, and while its primary is down it is looked at once a second.
LOOK_PERIODS_MS = {"info-period": 200, "publish-period": 200, "ask-period": 100, "ping-period": 300}


class Sentinels(Closing):
    """Use as a context manager. `primary` is whichever server the sentinels name at that moment."""

    def __init__(self, binary: Path | None = None, *, args: tuple[str, ...] = ()) -> None:
        binary = binary or valkey()
        self._open = contextlib.ExitStack()
        try:
            first = self._open.enter_context(Server(binary, args=args))
            replica_args = ("--replicaof", HOST, str(first.port), *args)
            self.servers = [first, self._open.enter_context(Server(binary, args=replica_args))]
            self.sentinels = self._start_sentinels(binary)
            wait_for("every sentinel sees all others", self._is_ready, READY_TIMEOUT_S, self._describe)
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(sentinel.address for sentinel in self.sentinels)}/{NAME}"

    @property
    def primary(self) -> Server:
        ports = [_primary_port(sentinel) for sentinel in self.sentinels if sentinel.is_answering]
        agreed = max(set(ports), key=ports.count)
        return next(server for server in self.servers if server.port == agreed)

    @property
    def replica(self) -> Server:
        """The server that is not the primary, whatever state it is in."""
        primary = self.primary
        return next(server for server in self.servers if server is not primary)

    def kill_primary(self) -> Server:
        """Returns the server killed; `restart()` it to have it come back as a replica."""
        primary = self.primary
        primary.kill9()
        return primary

    def wait_promoted(self, instead_of: Server | None = None, timeout_s: float = PROMOTION_TIMEOUT_S) -> Server:
        """The new primary, once every living sentinel names it and it says so itself.

        Name the old one if it is neither dead nor hung.
        """

        def promoted() -> Server | None:
            named = {_primary_port(sentinel) for sentinel in self.sentinels if sentinel.is_answering}
            new = [server for server in self.servers if server.is_answering and server is not instead_of]
            agreed = [server for server in new if {server.port} == named and server.command("ROLE")[0] == b"master"]
            return agreed[0] if agreed else None

        return wait_for("a new primary", promoted, timeout_s, self._describe)

    def wait_rejoined(self, server: Server, timeout_s: float = REJOIN_TIMEOUT_S) -> None:
        """Until a server restarted or continued follows the new primary and has its keys."""
        wait_for(f"{server} follows", lambda: replication_is_up(server), timeout_s, self._describe)

    def close(self) -> None:
        self._open.close()

    def _start_sentinels(self, binary: Path) -> list[Server]:
        # Told of one another beforehand, they need no seconds to find each other.
        peers = {free_port(): secrets.token_hex(20) for _ in range(SENTINELS)}
        sentinels: list[Server] = []
        for port in peers:
            node = _SentinelNode(binary, port, self._configuration(port, peers))
            sentinels.append(self._open.enter_context(node))
            node.command("SENTINEL", "DEBUG", *(word for pair in LOOK_PERIODS_MS.items() for word in pair))
        return sentinels

    def _configuration(self, port: int, peers: dict[int, str]) -> str:
        primary, replica = self.servers
        lines = [
            f"port {port}",
            f"bind {HOST}",
            f"sentinel myid {peers[port]}",
            f"sentinel monitor {NAME} {HOST} {primary.port} {QUORUM}",
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}",
            f"sentinel known-replica {NAME} {HOST} {replica.port}",
        ]
        others = [(other, identity) for other, identity in peers.items() if other != port]
        lines += [f"sentinel known-sentinel {NAME} {HOST} {other} {identity}" for other, identity in others]
        return "\n".join(lines) + "\n"

    def _is_ready(self) -> bool:
        return replication_is_up(self.servers[1]) and all(map(_sees_everyone, self.sentinels))

    def _describe(self) -> str:
        return "\n\n".join(server.log_tail() for server in [*self.servers, *self.sentinels])


class _SentinelNode(Server):
    def __init__(self, binary: Path, port: int, configuration: str) -> None:
        self._configuration = configuration
        super().__init__(binary, port=port)

    def _command_line(self) -> list[str | Path]:
        file = self.folder / "sentinel.conf"
        # A sentinel keeps what it learns in this file, so a restarted one must find it as it left it.
        if not file.exists():
            file.write_text(self._configuration)
        return [self.binary, file, "--sentinel"]


def _primary_port(sentinel: Server) -> int:
    return int(sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])


def _sees_everyone(sentinel: Server) -> bool:
    states = [sentinel.command("SENTINEL", "MASTER", NAME)]
    for others in ("REPLICAS", "SENTINELS"):
        states += sentinel.command("SENTINEL", others, NAME)
    flags = [dict(zip(state[::2], state[1::2], strict=True))[b"flags"] for state in states]
    return sorted(flags) == [b"master", *[b"sentinel"] * (SENTINELS - 1), b"slave"]
