"""How each example's files are put in place, and the command that starts its proxy with them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.proxies import binaries
from tests.proxies.certificates import Certificates
from tests.proxies.example import EXAMPLES, adapted, other_choice, patient
from tests.proxies.node import Node
from tests.servers.ports import HOST

Command = list[str | Path]


@dataclass(frozen=True)
class Place:
    """Where a proxy is to run, and whom it finds there."""

    folder: Path
    port: int
    spare_port: int
    application_port: int
    node: Node
    certificates: Certificates
    is_patient: bool
    is_closed: bool

    def text(self, path: str) -> str:
        text = (EXAMPLES / path).read_text()
        return patient(text) if self.is_patient else text

    def write(self, name: str, text: str) -> Path:
        written = self.folder / name
        written.write_text(text)
        return written

    @property
    def usual(self) -> dict[str, str]:
        return {"127.0.0.1:8000": f"{HOST}:{self.port}", "127.0.0.1:9000": f"{HOST}:{self.application_port}"}


def nginx_unix(place: Place) -> Command:
    return _nginx(place, place.text("nginx/headgate.conf"), {"/run/headgate/node.sock": str(place.node.uds)})


def nginx_tcp(place: Place) -> Command:
    text = other_choice(place.text("nginx/headgate.conf"), "server unix:")
    return _nginx(place, text, {"127.0.0.1:8080": place.node.http})


def _nginx(place: Place, text: str, headgate: dict[str, str]) -> Command:
    if place.is_closed:
        text = other_choice(text, "return 204;")
    place.write("headgate.conf", adapted(text, place.usual | headgate))
    folders = " ".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # What a distribution's nginx.conf says around conf.d. Started by root, its workers would be somebody else.
    main = [
        "user root root;" if os.geteuid() == 0 else "",
        "pid nginx.pid; daemon off; worker_processes 1; events {}",
        f"http {{ access_log off; {folders} include headgate.conf; }}",
    ]
    written = place.write("nginx.conf", "\n".join(main))
    return [binaries.nginx().require(), "-p", place.folder, "-e", "stderr", "-c", written]


def traefik(place: Place) -> Command:
    return _traefik(place, f"{HOST}:{place.spare_port}")


def traefik_directly(place: Place) -> Command:
    return _traefik(place, place.node.http)


def _traefik(place: Place, asked: str) -> Command:
    text = place.text("traefik/dynamic.yaml")
    if place.is_closed:
        text = other_choice(text, "service: headgate-or-open")
    headgate = {"127.0.0.1:8001": asked, "127.0.0.1:8080": place.node.http}
    routes = place.write("dynamic.yaml", adapted(text, headgate | {"127.0.0.1:9000": place.usual["127.0.0.1:9000"]}))
    fixed = (EXAMPLES / "traefik/traefik.yaml").read_text()
    places = {
        "127.0.0.1:8000": place.usual["127.0.0.1:8000"],
        "127.0.0.1:8001": f"{HOST}:{place.spare_port}",
        "/etc/traefik/dynamic.yaml": str(routes),
    }
    written = place.write("traefik.yaml", adapted(fixed, places))
    return [binaries.traefik().require(), f"--configFile={written}"]


def caddy_unix(place: Place) -> Command:
    return _caddy(place, f"unix/{place.node.uds}")


def caddy_tcp(place: Place) -> Command:
    return _caddy(place, place.node.http)


def _caddy(place: Place, headgate: str) -> Command:
    text = place.text("caddy/Caddyfile")
    if place.is_closed:
        before, block = text.split("\thandle_errors 502 504 {\n")
        text = before + block.split("\t}\n", 1)[1]
    places = {"http://:8000": f"http://:{place.port}", "unix//run/headgate/node.sock": headgate}
    written = place.write("Caddyfile", adapted(text, place.usual | places))
    return [binaries.caddy().require(), "run", "--adapter", "caddyfile", "--config", written]


def envoy_tcp(place: Place) -> Command:
    return _envoy(place, place.text("envoy/envoy.yaml"), {"port_value: 8081": _port_value(place.node.grpc)})


def envoy_unix(place: Place) -> Command:
    text = other_choice(place.text("envoy/envoy.yaml"), "socket_address: {address: 127.0.0.1, port_value: 8081}")
    return _envoy(place, text, {"/run/headgate/node.sock": str(place.node.uds)})


def envoy_mutual_tls(place: Place) -> Command:
    text = place.text("envoy/envoy.yaml").replace("#tls ", "")
    files = {
        "/etc/envoy/client.pem": str(place.certificates.client),
        "/etc/envoy/client.key": str(place.certificates.client_key),
        "/etc/envoy/headgate-ca.pem": str(place.certificates.authority),
    }
    return _envoy(place, text, files | {"port_value: 8081": _port_value(place.node.grpc)})


def _envoy(place: Place, text: str, headgate: dict[str, str]) -> Command:
    if place.is_closed:
        text = adapted(text, {"failure_mode_deny: false": "failure_mode_deny: true"})
    ports = {
        "port_value: 8000": f"port_value: {place.port}",
        "port_value: 9000": f"port_value: {place.application_port}",
    }
    written = place.write("envoy.yaml", adapted(text, ports | headgate))
    # Several Envoys on one machine must not share memory for hot restarts.
    options = ["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"]
    return [binaries.envoy().require(), "-c", written, *options]


def _port_value(address: str) -> str:
    return f"port_value: {address.rpartition(':')[2]}"
