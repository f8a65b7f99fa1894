"""Certificates for the doors of a node and for the proxy that knocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Certificates:
    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        folder.mkdir()
        made = cls(*(folder / f"{name}.pem" for name in ("ca", "server", "server-key", "client", "client-key")))
        authority = trustme.CA()
        authority.cert_pem.write_to_path(made.authority)
        for name, certificate, key in (
            ("localhost", made.server, made.server_key),
            ("proxy.internal", made.client, made.client_key),
        ):
            issued = authority.issue_cert(name)
            key.touch(mode=0o600)
            issued.private_key_pem.write_to_path(key)
            issued.cert_chain_pems[0].write_to_path(certificate)
        return made

    def node_flags(self) -> list[str]:
        files = {"--tls-cert": self.server, "--tls-key": self.server_key, "--tls-client-ca": self.authority}
        return [part for flag, path in files.items() for part in (flag, str(path))]
