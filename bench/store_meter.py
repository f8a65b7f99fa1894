"""What a server says of itself (INFO): commands, processor time, memory. And which servers are measured."""

from dataclasses import dataclass
from pathlib import Path

from tests.servers.binaries import flavours, valkey
from tests.servers.server import Server

# What our scripts call inside the server. All else that reaches it is a call of its own.
WITHIN_SCRIPTS = frozenset({"time", "mget", "set", "del", "zadd", "zremrangebyscore", "zrange", "pexpire"})
OF_THE_METER = frozenset({"info"})
# Asked every ten seconds by a node, about one key: headgate_store_bytes_per_subject.
OF_THE_NODE = frozenset({"memory|usage"})


@dataclass(frozen=True)
class Product:
    """A server to measure with. Targets are set for the first; the others are shown beside it."""

    name: str
    binary: Path
    is_target: bool

    def target(self, value: float) -> float | None:
        return value if self.is_target else None

    def named(self, figure: str) -> str:
        return figure if self.is_target else f"{figure} ({self.name})"


def products() -> list[Product]:
    return [
        Product(flavour.name.capitalize(), flavour.binary, flavour.binary == valkey())
        for flavour in flavours()
        if flavour.binary is not None
    ]


@dataclass(frozen=True)
class Calls:
    """Since the server's start."""

    for_checks: int
    heartbeats: int

    def since(self, before: "Calls") -> "Calls":
        return Calls(self.for_checks - before.for_checks, self.heartbeats - before.heartbeats)


class Meter:
    def __init__(self, server: Server) -> None:
        self._server = server

    def calls(self) -> Calls:
        """A node that is alive says so once a second with a script that is the only one to ZADD."""
        counts = {name: int(fields["calls"]) for name, fields in self._command_stats().items()}
        heartbeats = counts.get("zadd", 0)
        from_outside = sum(n for name, n in counts.items() if name not in WITHIN_SCRIPTS | OF_THE_METER | OF_THE_NODE)
        return Calls(from_outside - heartbeats, heartbeats)

    def script_us(self) -> dict[str, float]:
        """Times inside a script since `forget_times`: `p50`, `p99`, `p99.9`."""
        shares = self._info("latencystats")["latency_percentiles_usec_evalsha"]
        return {name: float(value) for name, value in (pair.split("=", 1) for pair in shares.split(","))}

    def script_p50_us(self) -> float:
        return self.script_us()["p50"]

    def forget_times(self) -> None:
        self._server.command("CONFIG", "RESETSTAT")

    def cpu_us(self) -> float:
        """User and system time of the process, all threads together."""
        fields = self._info("cpu")
        return (float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"])) * 1e6

    def used_bytes(self) -> int:
        return int(self._info("memory")["used_memory"])

    def key_bytes(self, key: str) -> int:
        """With every sample taken, so nothing is estimated."""
        found: int | None = self._server.command("MEMORY", "USAGE", key, "SAMPLES", 0)
        if found is None:
            raise RuntimeError(f"the server holds no {key}")
        return found

    def _info(self, section: str) -> dict[str, str]:
        lines = self._server.command("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _command_stats(self) -> dict[str, dict[str, str]]:
        return {
            name.removeprefix("cmdstat_"): dict(pair.split("=", 1) for pair in text.split(","))
            for name, text in self._info("commandstats").items()
        }
