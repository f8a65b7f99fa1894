"""What a running node says of itself: `/readyz` and `/metrics`."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headgate.dialling import dial
from headgate.doctor.gather.bounded import within
from headgate.doctor.gather.listeners import dialled_place
from headgate.doctor.gather.reasons import NOT_IN_TIME, reason
from headgate.doctor.gather.store_url import Place
from headgate.errors import ConfigError
from headgate.settings import Settings

NODE_S = 4.0
ANSWER_BYTES_MAX = 16 * 2**20
EXPECTED = "expected HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:/PATH"
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)\Z")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PORTS = {"http": 80, "https": 443}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """`is_verified`: the certificate must be one this machine trusts. Of a node that the settings themselves speak of
    it need not be: nothing secret is sent, and its authority may be known to its clients alone."""

    text: str
    place: Place
    is_tls: bool = False
    is_verified: bool = True


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """`ready` is what /readyz answered; metrics are by name and labels."""

    where: str
    error: str | None = None
    ready: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's figures with these labels."""
        wanted = set(labels.items())
        return sum(value for found, value in self.metrics.get(name, {}).items() if wanted <= set(found))

    def each(self, name: str) -> list[tuple[dict[str, str], float]]:
        return [(dict(labels), value) for labels, value in self.metrics.get(name, {}).items()]


def node_address(text: str) -> NodeAddress:
    """Raises ConfigError."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        return NodeAddress(text, Place(path=path.removeprefix("//") if path.startswith("///") else path))
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        raise ConfigError(f"--node: {EXPECTED}") from None
    if not host or not port or parts.scheme not in _PORTS or parts.username or parts.path.strip("/"):
        raise ConfigError(f"--node: {EXPECTED}")
    return NodeAddress(text, Place(host, port), parts.scheme == "https")


def address_in(settings: Settings, *, is_gateway: bool) -> NodeAddress | None:
    """Where a node with these settings tells how it is; None where nobody can know."""
    if settings.admin is not None:
        return _own(settings.admin, bool(settings.tls_cert) and settings.admin_tls != "off")
    for address in (None if is_gateway else settings.listen, settings.grpc):
        if address is not None and not address.endswith(":0"):
            return _own(address, bool(settings.tls_cert))
    return None if settings.uds is None else NodeAddress(f"unix:{settings.uds}", Place(path=settings.uds))


def look_at_node(address: NodeAddress) -> NodeFacts:
    return within(lambda: _look(address), NODE_S) or NodeFacts(address.text, NOT_IN_TIME)


def read_metrics(text: str) -> dict[str, dict[Labels, float]]:
    """As Prometheus reads them; what cannot be read is left out."""
    found: dict[str, dict[Labels, float]] = {}
    for line in text.splitlines():
        parts = None if line.startswith("#") else _LINE.match(line)
        if parts is None:
            continue
        try:
            value = float(parts[3])
        except ValueError:
            continue
        labels = tuple(sorted((name, worth) for name, worth in _LABEL.findall(parts[2] or "")))
        found.setdefault(parts[1], {})[labels] = value
    return found


def _own(address: str, is_tls: bool) -> NodeAddress:
    scheme = "https" if is_tls else "http"
    return NodeAddress(f"{scheme}://{address}", dialled_place(address), is_tls, is_verified=False)


def _look(address: NodeAddress) -> NodeFacts:
    try:
        ready = json.loads(_get(address, "/readyz"))
        if not isinstance(ready, dict) or "ready" not in ready:
            return NodeFacts(address.text, "what answers there is not a Headgate node")
        return NodeFacts(address.text, None, ready, read_metrics(_get(address, "/metrics")))
    except ValueError:
        return NodeFacts(address.text, "what answers there is not a Headgate node")
    except http.client.HTTPException as error:
        return NodeFacts(address.text, f"it does not speak HTTP: {error!r}")
    except OSError as error:
        return NodeFacts(address.text, reason(error))


def _get(address: NodeAddress, path: str) -> str:
    connection = http.client.HTTPConnection("localhost", timeout=NODE_S)
    try:
        connection.sock = dial(address.place.where, NODE_S, _tls(address))
        connection.request("GET", path, headers={"Connection": "close"})
        return connection.getresponse().read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
    finally:
        connection.close()


def _tls(address: NodeAddress) -> ssl.SSLContext | None:
    if not address.is_tls:
        return None
    context = ssl.create_default_context()
    if not address.is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
