"""One gateway with an upstream of every kind, for all tests that leave it standing."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gateway.app import AppServer
from tests.gateway.gate import Gate
from tests.gateway.upstream import Upstream
from tests.hostile.certificates import Authority
from tests.integration.http_node import eventually
from tests.proxies.tokens import Known, made_known
from tests.servers.ports import HOST, free_port

Start = Callable[..., Gate]


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    return made_known(tmp_path_factory.mktemp("known"))


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    with AppServer(tmp_path_factory.mktemp("app")) as server:
        yield server


def shown(folder: Path, authority: Authority) -> ssl.SSLContext:
    """What a server of this authority shows."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    authority.pair().write(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True)
class Upstreams:
    """By the prefixes of their paths: nothing, `/unix`, `/tls`, `/stranger` (of an authority nobody knows)."""

    plain: Upstream
    unix: Upstream
    tls: Upstream
    stranger: Upstream

    def all(self) -> tuple[Upstream, ...]:
        return (self.plain, self.unix, self.tls, self.stranger)


@pytest.fixture(scope="session")
def upstreams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstreams]:
    # Not under pytest's folder: its long names do not fit in a Unix socket's address.
    with tempfile.TemporaryDirectory(prefix="hg-up-") as short:
        folder = tmp_path_factory.mktemp("upstreams")
        ours = Authority()
        (folder / "ca.pem").write_bytes(ours.certificate)
        made = Upstreams(
            Upstream(),
            Upstream(Path(short) / "app.sock"),
            Upstream(tls=shown(folder, ours)),
            Upstream(tls=shown(folder, Authority())),
        )
        yield made
        for upstream in made.all():
            upstream.close()


@pytest.fixture(scope="session")
def shared_gate(
    upstreams: Upstreams, app: AppServer, known: Known, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gate]:
    by_prefix = {
        "/unix": upstreams.unix.url,
        "/tls": upstreams.tls.url,
        "/stranger": upstreams.stranger.url,
        "/app": app.url,
        "/down": f"http://{HOST}:{free_port()}",
    }
    said = ",".join([upstreams.plain.url, *(f"{prefix}={url}" for prefix, url in by_prefix.items())])
    authority = next(tmp_path_factory.getbasetemp().glob("upstreams*")) / "ca.pem"
    with Gate(tmp_path_factory.mktemp("gate"), said, "--upstream-ca", str(authority), *known.flags) as gate:
        gate.address("http")
        yield gate


@pytest.fixture
def gate(shared_gate: Gate, upstreams: Upstreams) -> Iterator[Gate]:
    """After each test it holds no connection to an upstream that it still waits on, and upstreams saw strict HTTP."""
    for upstream in upstreams.all():
        upstream.begin()
    yield shared_gate
    shared_gate.hang_up()
    assert shared_gate.process.poll() is None, shared_gate.log()
    assert "panicked" not in shared_gate.log()
    eventually(lambda: shared_gate.busy() == 0)
    for upstream in upstreams.all():
        upstream.assert_well()


@pytest.fixture
def upstream(upstreams: Upstreams) -> Upstream:
    """Where all goes that has no other prefix."""
    return upstreams.plain


@pytest.fixture
def own_upstream() -> Iterator[Upstream]:
    """Of a test that breaks it."""
    with Upstream() as made:
        yield made
        made.assert_well()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Gateways with settings of the test's own: `start(upstreams, *flags)`."""
    gates: list[Gate] = []

    def starter(*arguments: object, **options: object) -> Gate:
        folder = tmp_path / f"gate{len(gates)}"
        folder.mkdir()
        gates.append(Gate(folder, *arguments, **options))  # type: ignore[arg-type]
        return gates[-1]

    yield starter
    for gate in gates:
        gate.close()
