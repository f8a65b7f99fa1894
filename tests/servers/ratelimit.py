"""envoyproxy/ratelimit itself, where it was built: what it answers is what imported files have to answer."""

from __future__ import annotations

import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tests.servers.binaries import Flavour
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.server import Server
from tests.servers.waiting import wait_for

START_S = 60.0
SUBDIRECTORY = "tests"
_NONE: Mapping[str, str] = MappingProxyType({})


@cache
def ratelimit() -> Flavour:
    """From the PATH, or as the benchmarks build it."""
    built = sorted((Path(sys.prefix) / "go").glob("github.com-envoyproxy-ratelimit-*/service_cmd"))
    found = shutil.which("ratelimit") or (str(built[-1]) if built else None)
    if found is None:
        missing = "envoyproxy/ratelimit is not built: `make bench-peers` does that, or put `ratelimit` on the PATH"
        return Flavour("ratelimit", None, missing)
    return Flavour("ratelimit", Path(found))


class Ratelimit(Closing):
    """Serves `files`, each a configuration; started when this returns. `settings` are more of its environment."""

    def __init__(
        self, binary: Path, folder: Path, store: Server, files: Mapping[str, str], settings: Mapping[str, str] = _NONE
    ) -> None:
        configs = folder / SUBDIRECTORY / "config"
        configs.mkdir(parents=True)
        for name, text in files.items():
            (configs / name).write_text(text)
        port, self.grpc_port = free_port(), free_port()
        environment = {
            **dict.fromkeys(("HOST", "GRPC_HOST", "DEBUG_HOST"), HOST),
            **{"PORT": str(port), "GRPC_PORT": str(self.grpc_port), "DEBUG_PORT": str(free_port())},
            **{"RUNTIME_ROOT": str(folder), "RUNTIME_SUBDIRECTORY": SUBDIRECTORY, "RUNTIME_WATCH_ROOT": "false"},
            **{"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": store.address, "USE_STATSD": "false", "LOG_LEVEL": "error"},
        }
        self.process = Process([binary], folder, {**os.environ, **environment, **settings})
        try:
            url = f"http://{HOST}:{port}/healthcheck"
            wait_for(url, lambda: self._is_up(url), START_S, self.process.log_tail)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        return f"{HOST}:{self.grpc_port}"

    def close(self) -> None:
        self.process.kill()

    def _is_up(self, url: str) -> bool:
        assert self.process.exit_code is None, self.process.log_tail()
        try:
            # Not by httpx: the benchmarks do without it.
            with urllib.request.urlopen(url, timeout=START_S):
                return True
        except (urllib.error.URLError, OSError):
            return False
