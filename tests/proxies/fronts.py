"""The examples as the tests know them: each way of each proxy, and what its README promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.proxies import binaries, setups
from tests.proxies.setups import Command, Place
from tests.servers.binaries import Flavour


@dataclass(frozen=True)
class Front:
    name: str
    example: str
    flavour: Callable[[], Flavour]
    command: Callable[[Place], Command]
    # What a client gets when a rule blocks it, and when the door is closed and the node is down or hung.
    blocked_status: int = 403
    down_status: int = 503
    hung_status: int = 503
    unverified_status: int = 401
    # And when a rule is closed because the node has lost its store.
    storeless_status: int = 503
    tells_rate_when_allowed: bool = True
    uses_tls: bool = False

    def __str__(self) -> str:
        return self.name


_NGINX = Front("nginx-unix", "nginx", binaries.nginx, setups.nginx_unix)
_TRAEFIK = Front(
    "traefik",
    "traefik",
    binaries.traefik,
    setups.traefik,
    down_status=502,
    hung_status=504,
    tells_rate_when_allowed=False,
)
_CADDY = Front("caddy-unix", "caddy", binaries.caddy, setups.caddy_unix, down_status=502, hung_status=504)
# It knows one status for all refusals.
_ENVOY = Front(
    "envoy-tcp",
    "envoy",
    binaries.envoy,
    setups.envoy_tcp,
    blocked_status=429,
    unverified_status=429,
    storeless_status=429,
)

FRONTS = (
    _NGINX,
    replace(_NGINX, name="nginx-tcp", command=setups.nginx_tcp),
    _TRAEFIK,
    _CADDY,
    replace(_CADDY, name="caddy-tcp", command=setups.caddy_tcp),
    _ENVOY,
    replace(_ENVOY, name="envoy-unix", command=setups.envoy_unix),
    replace(_ENVOY, name="envoy-mtls", command=setups.envoy_mutual_tls, uses_tls=True),
)
EACH_PROXY = (_NGINX, _TRAEFIK, _CADDY, _ENVOY)
TRAEFIK_DIRECTLY = replace(_TRAEFIK, name="traefik-directly", command=setups.traefik_directly)
