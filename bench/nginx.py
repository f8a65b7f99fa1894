"""nginx as a gateway to measure beside: one worker, keep-alive connections on both sides, limits of its own."""

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Unavailable
from bench.http_servers import START_S_MAX, Running, stopping
from bench.processes import OUT
from tests.proxies.binaries import nginx as found_nginx
from tests.servers.binaries import VERSION_TIMEOUT_S
from tests.servers.ports import free_port

# Of one worker to its upstream: as many as clients have to it.
IDLE_CONNECTIONS = 128
EVERYONE = "$server_name"
CALLER = "$binary_remote_addr"


@dataclass(frozen=True)
class Zone:
    """A limit in nginx's words: a bucket that leaks at a rate, for each value of a key."""

    name: str
    key: str
    rate: str
    burst: int

    def declared(self) -> str:
        return f"limit_req_zone {self.key} zone={self.name}:10m rate={self.rate};"

    def applied(self) -> str:
        return f"limit_req zone={self.name} burst={self.burst} nodelay;"


def _configuration(port: int, upstream_port: int, folder: str, locations: Mapping[str, Sequence[Zone]]) -> str:
    zones = [zone.declared() for limits in locations.values() for zone in limits]
    places = [
        f"location {path} {{ {' '.join(zone.applied() for zone in limits)} proxy_pass http://application; }}"
        for path, limits in locations.items()
    ]
    kept = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return f"""
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    {" ".join(f"{name}_temp_path {folder}/{name};" for name in kept)}
    limit_req_status 429;
    limit_req_log_level info;
    {" ".join(zones)}
    upstream application {{
        server 127.0.0.1:{upstream_port};
        keepalive {IDLE_CONNECTIONS};
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        server_name everyone;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        {" ".join(places)}
    }}
}}
"""


def nginx_version() -> str:
    said = subprocess.run([_program(), "-v"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=True)
    version = re.search(r"nginx/(\S+)", said.stderr)
    return version[1] if version else "of unknown version"


@contextmanager
def nginx(upstream_port: int, locations: Mapping[str, Sequence[Zone]]) -> Iterator[Running]:
    """The process is its worker: the other one only watches over it."""
    program, port = _program(), free_port()
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hg-nginx-") as folder, (OUT / "nginx.log").open("a") as log:
        configuration = Path(folder) / "nginx.conf"
        configuration.write_text(_configuration(port, upstream_port, folder, locations))
        command = [program, "-p", folder, "-e", "stderr", "-c", str(configuration)]
        process = subprocess.Popen(command, stdout=log, stderr=log, text=True)
        with stopping(process):
            yield Running(_wait_for_worker(process), port)


def _program() -> str:
    found = found_nginx()
    if found.binary is None:
        raise Unavailable(found.missing)
    return str(found.binary)


def _wait_for_worker(process: subprocess.Popen[str]) -> int:
    """Its listening socket is open before the worker is there."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + START_S_MAX
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"nginx did not start; its log is {OUT / 'nginx.log'}")
        workers = children.read_text().split()
        if workers:
            return int(workers[0])
        time.sleep(0.02)
