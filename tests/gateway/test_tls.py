"""The gateway behind TLS of its own, for HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import Start
from tests.gateway.upstream import Upstream
from tests.hostile.certificates import Authority
from tests.integration.http_node import PATIENCE_S


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_clients_agree_on_a_version_and_the_upstream_is_told_of_tls(
    start: Start, own_upstream: Upstream, tmp_path: Path, http2: bool
) -> None:
    authority = Authority()
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    authority.pair().write(certificate, key)
    flags = ("--tls-cert", str(certificate), "--tls-key", str(key), "--admin-tls", "off")
    gate = start(own_upstream, *flags)
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    transport = httpx.HTTPTransport(verify=context, http2=http2)
    with httpx.Client(transport=transport, timeout=PATIENCE_S, trust_env=False) as client:
        answer = client.post(f"https://localhost:{gate.port('http')}/x", content=b"sent")
    assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
    assert answer.text == "ok"
    head = own_upstream.only.head
    assert own_upstream.only.body == b"sent"
    assert head.value("x-forwarded-proto") == "https"
    assert "proto=https" in (head.value("forwarded") or "")
