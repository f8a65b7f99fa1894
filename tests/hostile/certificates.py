"""Certificates good and bad, made on the spot, and clients that show them."""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import trustme

from tests.integration.http_node import PATIENCE_S

LONG_AGO = datetime.now(UTC) - timedelta(days=30)
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate with its chain, and its key, PEM."""

    certificate: bytes
    key: bytes

    def write(self, certificate: Path, key: Path) -> None:
        """As a renewal does: each file whole, one after the other."""
        for path, content in ((key, self.key), (certificate, self.certificate)):
            draft = path.with_suffix(".draft")
            draft.write_bytes(content)
            os.replace(draft, path)

    def der(self) -> bytes:
        first = self.certificate.decode().split("-----END CERTIFICATE-----")[0]
        return ssl.PEM_cert_to_DER_cert(first + "-----END CERTIFICATE-----\n")


class Authority:
    def __init__(self) -> None:
        self._issuer = trustme.CA()
        self.certificate: bytes = self._issuer.cert_pem.bytes()

    def pair(self, *names: str, expired: bool = False) -> Pair:
        before, after = (LONG_AGO, YESTERDAY) if expired else (None, None)
        issued = self._issuer.issue_cert(*(names or ("localhost", "127.0.0.1")), not_before=before, not_after=after)
        chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
        return Pair(chain, issued.private_key_pem.bytes())

    def credentials(self, client: Pair | None = None) -> grpc.ChannelCredentials:
        key, chain = (client.key, client.certificate) if client else (None, None)
        return grpc.ssl_channel_credentials(self.certificate, key, chain)


def seen_certificate(port: int) -> bytes:
    """What a new connection is shown, DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
        context.wrap_socket(plain) as connected,
    ):
        shown = connected.getpeercert(binary_form=True)
    assert shown is not None
    return shown
