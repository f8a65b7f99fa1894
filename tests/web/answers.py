"""How the applications of `doors` are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

CLIENT_IP = "198.51.100.7"
# A path that begins with two slashes would be taken for a host.
ORIGIN = "http://localhost"
PIECES = (b"ab", b"cd")


@dataclass(frozen=True)
class Got:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Door(Protocol):
    def ask(
        self,
        path: str = "/api/items",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        ip: str = CLIENT_IP,
    ) -> Got: ...


@dataclass
class Calls:
    """What reached the application."""

    paths: list[str] = field(default_factory=list)
