"""Free ports on 127.0.0.1.

They lie below the range the kernel takes the ports of outgoing connections from. Inside it a port can be lost while its
server is down, and a client that keeps connecting to a dead port may at last be connected to itself.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

HOST = "127.0.0.1"
BUS_OFFSET = 10_000
TRIES_MAX = 1_000

_LOWEST = 11_000
_USUAL_OUTGOING_LOWEST = 32_768
_handed_out: set[int] = set()
# A generator of its own: tests that seed the shared one must not all draw the same ports.
_random = random.SystemRandom()


def free_port() -> int:
    return _draw(_outgoing_lowest(), offsets=(0,))


def free_cluster_port() -> int:
    """A port whose cluster bus port, `BUS_OFFSET` above it, is free as well."""
    return _draw(_outgoing_lowest() - BUS_OFFSET, offsets=(0, BUS_OFFSET))


def _draw(end: int, offsets: tuple[int, ...]) -> int:
    for _ in range(TRIES_MAX):
        port = _random.randrange(_LOWEST, end)
        wanted = {port + offset for offset in offsets}
        if not wanted & _handed_out and all(map(_is_free, wanted)):
            _handed_out.update(wanted)
            return port
    raise RuntimeError(f"no free port on {HOST} between {_LOWEST} and {end} in {TRIES_MAX} tries")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _outgoing_lowest() -> int:
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_OUTGOING_LOWEST
    roomy = lowest > _LOWEST + 2 * BUS_OFFSET
    return min(lowest, _USUAL_OUTGOING_LOWEST) if roomy else _USUAL_OUTGOING_LOWEST
