"""TLS: who is let in, who is not, and certificates that change under load."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.grpc.client import Client, by
from tests.grpc.node_process import NodeProcess
from tests.hostile import http2
from tests.hostile.certificates import Authority, Pair, seen_certificate
from tests.hostile.conftest import Start
from tests.hostile.http2 import Raw
from tests.integration.http_node import PATIENCE_S, eventually

OURS, THEIRS = Authority(), Authority()


class Tls:
    """A node with TLS, its files, and clients of each kind."""

    def __init__(self, start: Start, folder: Path, *, client_ca: bool) -> None:
        self.certificate, self.key = folder / "node.pem", folder / "node.key"
        self.pair = OURS.pair()
        self.pair.write(self.certificate, self.key)
        flags = ["--tls-cert", str(self.certificate), "--tls-key", str(self.key)]
        if client_ca:
            ca = folder / "ca.pem"
            ca.write_bytes(OURS.certificate)
            flags += ["--tls-client-ca", str(ca)]
        self.node: NodeProcess = start(*flags)

    def client(self, credentials: grpc.ChannelCredentials, door: str = "grpc") -> Client:
        return Client(f"localhost:{self.node.port(door)}", credentials)

    def renew(self) -> None:
        """Returns when newcomers are shown the new certificate."""
        pair = OURS.pair()
        pair.write(self.certificate, self.key)
        eventually(lambda: seen_certificate(self.node.port()) == pair.der())

    def readiness(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.node.admin("/readyz", "https").json()
        return answer


@pytest.fixture
def tls(start: Start, tmp_path: Path) -> Tls:
    return Tls(start, tmp_path, client_ca=False)


@pytest.fixture
def mutual(start: Start, tmp_path: Path) -> Tls:
    return Tls(start, tmp_path, client_ca=True)


def is_refused(client: Client) -> bool:
    with client, pytest.raises(grpc.RpcError) as raised:
        client.raw("grpc.health.v1.Health/Check", b"")
    return bool(raised.value.code() == grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_grpc_and_http_are_answered_over_tls(tls: Tls, door: str) -> None:
    with tls.client(OURS.credentials(), door) as client:
        assert client.ask(by(user="42")).code == "OK"
        assert client.health() == "SERVING"
    context = ssl.create_default_context(cadata=OURS.certificate.decode())
    url = f"https://localhost:{tls.node.port(door)}/v1/check"
    assert httpx.post(url, json={"user": "42"}, verify=context, timeout=PATIENCE_S, trust_env=False).json()["allowed"]


@pytest.mark.parametrize(("offered", "chosen"), [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)])
def test_the_language_is_agreed_on_with_the_handshake(tls: Tls, offered: list[str], chosen: str | None) -> None:
    context = ssl.create_default_context(cadata=OURS.certificate.decode())
    if offered:
        context.set_alpn_protocols(offered)
    plain = socket.create_connection(("127.0.0.1", tls.node.port()), PATIENCE_S)
    with plain, context.wrap_socket(plain, server_hostname="localhost") as connected:
        assert connected.selected_alpn_protocol() == chosen
        if chosen == "h2":
            raw = Raw(connected)
            raw.send(http2.call(1, b"", "/grpc.health.v1.Health/Check"))
            assert raw.answer(1).fields["grpc-status"] == "0"
        else:
            connected.sendall(b"POST /v1/check HTTP/1.1\r\nhost: node\r\ncontent-length: 2\r\n\r\n{}")
            assert connected.recv(4_096).startswith(b"HTTP/1.1 200")


def test_the_unix_socket_stays_plain(mutual: Tls) -> None:
    assert mutual.node.client("uds").ask(by(user="42")).code == "OK"


def test_a_client_that_trusts_another_authority_does_not_speak_to_the_node(tls: Tls) -> None:
    assert is_refused(tls.client(THEIRS.credentials()))


def test_a_client_with_a_certificate_of_ours_is_let_in(mutual: Tls) -> None:
    with mutual.client(OURS.credentials(OURS.pair("client"))) as client:
        assert client.ask(by(user="42")).code == "OK"


@pytest.mark.parametrize(
    "shown",
    [None, THEIRS.pair("client"), OURS.pair("client", expired=True)],
    ids=["none", "another authority's", "expired"],
)
def test_a_client_without_a_good_certificate_is_not_let_in(mutual: Tls, shown: Pair | None) -> None:
    assert is_refused(mutual.client(OURS.credentials(shown)))
    with mutual.client(OURS.credentials(OURS.pair("client"))) as client:
        assert client.ask(by(user="42")).code == "OK"


def say_and_hear_out(port: int, beginning: bytes, *, is_all: bool) -> None:
    """Returns when the other side ends it."""
    connected = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    with connected, contextlib.suppress(ConnectionError):
        connected.sendall(beginning)
        if is_all:
            connected.shutdown(socket.SHUT_WR)
        while connected.recv(4_096):
            pass


def test_plain_bytes_and_garbage_at_a_tls_door_are_ended(tls: Tls) -> None:
    chance = random.Random(7)
    port = tls.node.port()
    beginnings = [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\xff\xff"]
    beginnings += [b"\x16\x03\x01\x00\x80" + chance.randbytes(128) for _ in range(50)]
    beginnings += [chance.randbytes(chance.randrange(1, 300)) for _ in range(100)]
    for beginning in beginnings:
        say_and_hear_out(port, beginning, is_all=True)
    with tls.client(OURS.credentials()) as client:
        assert client.ask(by(user="42")).code == "OK"
    assert "panicked" not in tls.node.log()


def test_a_handshake_that_stops_halfway_is_ended(start: Start, tmp_path: Path) -> None:
    tls = Tls(lambda *flags: start(*flags, "--header-timeout-s", "0.5"), tmp_path, client_ca=False)
    for beginning in (b"", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100):
        say_and_hear_out(tls.node.port(), beginning, is_all=False)


@contextlib.contextmanager
def under_load(*asking: Callable[[], object]) -> Iterator[list[int]]:
    """Each asks again and again in a thread of its own until the end; how often, and the first failure is raised."""
    done = threading.Event()
    counts = [0] * len(asking)
    failures: list[BaseException] = []

    def run(nth: int) -> None:
        try:
            while not done.is_set():
                asking[nth]()
                counts[nth] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(nth,)) for nth in range(len(asking))]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    if failures:
        raise failures[0]


def each_goes_on(counts: list[int]) -> None:
    before = counts.copy()
    eventually(lambda: all(now > then for now, then in zip(counts, before, strict=True)))


def test_a_new_certificate_is_taken_up_under_load_and_no_call_fails(tls: Tls) -> None:
    lasting = tls.client(OURS.credentials())
    assert lasting.ask(by(user="42")).code == "OK"
    credentials = OURS.credentials()

    def ask_again() -> None:
        assert lasting.ask(by(user="42")).code == "OK"

    def ask_anew() -> None:
        with tls.client(credentials).share_messages(lasting) as client:
            assert client.ask(by(user="42")).code == "OK"

    with lasting, under_load(ask_again, ask_again, ask_anew) as counts:
        for _ in range(3):
            tls.renew()
            each_goes_on(counts)
    assert tls.readiness()["tls_error"] is None


@pytest.mark.parametrize("broken", ["certificate", "key", "mismatch", "gone", "empty"])
def test_a_broken_pair_is_refused_and_said_and_the_old_one_goes_on(tls: Tls, broken: str) -> None:
    assert tls.readiness()["tls_error"] is None
    new = OURS.pair()
    if broken == "certificate":
        Pair(b"no certificate", new.key).write(tls.certificate, tls.key)
    elif broken == "key":
        Pair(new.certificate, b"no key").write(tls.certificate, tls.key)
    elif broken == "mismatch":
        Pair(new.certificate, OURS.pair().key).write(tls.certificate, tls.key)
    elif broken == "empty":
        Pair(b"", b"").write(tls.certificate, tls.key)
    else:
        tls.certificate.unlink()
    assert eventually(lambda: tls.readiness()["tls_error"])
    assert tls.readiness()["ready"]
    assert eventually(lambda: [event for event in tls.node.events() if event["level"] == "error"])
    assert seen_certificate(tls.node.port()) == tls.pair.der()
    metrics = tls.node.admin("/metrics", "https").text
    assert "headgate_tls_reload_errors_total 0" not in metrics
    new.write(tls.certificate, tls.key)
    eventually(lambda: tls.readiness()["tls_error"] is None)
    assert seen_certificate(tls.node.port()) == new.der()


def test_a_new_certificate_does_not_end_connections(tls: Tls) -> None:
    with tls.client(OURS.credentials()) as client:
        states: list[grpc.ChannelConnectivity] = []
        client.ask(by(user="42"))
        client.channel.subscribe(states.append)
        tls.renew()
        time.sleep(0.2)
        assert client.ask(by(user="42")).code == "OK"
        assert grpc.ChannelConnectivity.IDLE not in states
        assert grpc.ChannelConnectivity.TRANSIENT_FAILURE not in states


@pytest.mark.parametrize("missing", ["--tls-cert", "--tls-key"])
def test_a_node_does_not_start_with_half_a_pair(start: Start, tmp_path: Path, missing: str) -> None:
    certificate, key = tmp_path / "node.pem", tmp_path / "node.key"
    OURS.pair().write(certificate, key)
    given = {"--tls-cert": str(certificate), "--tls-key": str(key)}
    node = start(*(word for flag, path in given.items() if flag != missing for word in (flag, path)))
    assert node.process.wait(PATIENCE_S) != 0
    assert "Traceback" not in node.log()


def test_a_node_does_not_start_with_a_broken_pair(start: Start, tmp_path: Path) -> None:
    certificate, key = tmp_path / "node.pem", tmp_path / "node.key"
    Pair(OURS.pair().certificate, OURS.pair().key).write(certificate, key)
    node = start("--tls-cert", str(certificate), "--tls-key", str(key))
    assert node.process.wait(PATIENCE_S) != 0
    assert "Traceback" not in node.log()
