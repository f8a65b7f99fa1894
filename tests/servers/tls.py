"""TLS before a plain server, with an authority and certificates made on the spot."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import trustme

from tests.servers.ports import HOST
from tests.servers.proxy import Proxy


@dataclass(frozen=True)
class Files:
    certificate: Path
    key: Path


class Authority:
    """Issues certificates and writes them, PEM, into a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issuer = trustme.CA()
        self.certificate = folder / "ca.pem"
        self._issuer.cert_pem.write_to_path(self.certificate)

    @cached_property
    def client(self) -> Files:
        return self._issue("client", "headgate-client")

    def server_context(self, *names: str, client_certificate: bool = False) -> ssl.SSLContext:
        """For `Proxy(tls=...)`. A certificate for other names than the address clients use is one they must refuse."""
        files = self._issue("server", *(names or (HOST, "localhost")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        if client_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificate)
        return context

    def _issue(self, label: str, *names: str) -> Files:
        issued = self._issuer.issue_cert(*names)
        files = Files(self._folder / f"{label}.pem", self._folder / f"{label}.key")
        files.key.touch(mode=0o600)
        issued.private_key_pem.write_to_path(files.key)
        for number, part in enumerate(issued.cert_chain_pems):
            part.write_to_path(files.certificate, append=number > 0)
        return files


def tls_front(target_port: int, authority: Authority, *, client_certificate: bool = False) -> Proxy:
    """A `rediss://` proxy, with all a proxy's faults."""
    return Proxy(target_port, tls=authority.server_context(client_certificate=client_certificate))
