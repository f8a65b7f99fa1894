"""`headgate node`."""

from __future__ import annotations

from headgate.cli.flags import with_setting_flags
from headgate.cli.serve import ReadyFile, run_node

DEFAULTS = {"grpc": "127.0.0.1:8081"}


def _node(*, config: str | None = None, ready_file: ReadyFile = None, **flags: str | None) -> None:
    """Stand beside real traffic: HTTP checks, forward auth for nginx, Traefik and Caddy, and Envoy's rate limit service
    over gRPC, until SIGTERM; SIGHUP or a saved change reloads the rules.

    \b
    Example:
      headgate node --rules rules.yaml --http 127.0.0.1:8080 --grpc 127.0.0.1:8081 --store redis://127.0.0.1:6379
      headgate node --rules rules.yaml --uds /run/headgate/node.sock --http "" --grpc "" --admin 0.0.0.0:8082
      curl -si 127.0.0.1:8080/v1/authorize -H 'X-Forwarded-Method: GET' -H 'X-Forwarded-Uri: /api/v1/login'
    """
    run_node(flags, config, ready_file, DEFAULTS)


node = with_setting_flags(_node, also={"listen": "--http"})
