"""A proxy's faults, seen from both of its sides."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from tests.servers.proxy import Proxy
from tests.servers.proxy_process import ProxyProcess
from tests.servers.server import Server
from tests.servers.tls import Authority, tls_front
from tests.servers.waiting import wait_for
from tests.servers.wire import Wire

PONG = b"+PONG\r\n"
SILENCE_S = 0.2
EVENTUALLY_S = 10
CLIENTS = 12
RESETS = 300


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    server.command("FLUSHALL")
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def holds(server: Server, key: str, value: bytes) -> None:
    wait_for(f"{key} is {value!r}", lambda: server.command("GET", key) == value, EVENTUALLY_S)


def over_tls(server: Server, front: Proxy, authority: Authority, **options: str) -> redis.Redis:
    return server.client(port=front.port, ssl=True, ssl_ca_certs=str(authority.certificate), **options)


def test_bytes_pass_and_are_counted(proxy: Proxy) -> None:
    with Wire(proxy.port) as wire:
        wire.ask("PING", expect=PONG)
        wire.ask("PING", expect=PONG)
        assert (proxy.connections, proxy.accepted) == (1, 1)
        assert (proxy.requests.bytes, proxy.requests.chunks) == (28, 2)
        assert (proxy.replies.bytes, proxy.replies.chunks) == (14, 2)
    wait_for("the connection is gone", lambda: proxy.connections == 0, EVENTUALLY_S)


def test_megabytes_pass_unharmed(proxy: Proxy) -> None:
    value = "0123456789abcdef" * 512 * 1024
    with Wire(proxy.port) as wire:
        wire.ask("SET", "big", value, expect=b"+OK\r\n")
        wire.ask("GET", "big", expect=f"${len(value)}\r\n{value}\r\n".encode())


def test_a_delay_holds_each_way_and_is_set_while_running(proxy: Proxy) -> None:
    with Wire(proxy.port) as wire:
        wire.ask("PING", expect=PONG)
        proxy.delay_s = 0.05
        start_s = time.monotonic()
        wire.ask("PING", expect=PONG)
        assert time.monotonic() - start_s >= 0.1
        proxy.delay_s = 0
        wire.ask("PING", expect=PONG)


def test_a_delay_does_not_limit_how_much_is_on_its_way(proxy: Proxy) -> None:
    proxy.delay_s = 0.1
    with Wire(proxy.port) as wire:
        start_s = time.monotonic()
        for number in range(200):
            wire.send("ECHO", f"{number:03}")
            time.sleep(0.0005)
        echoes = b"".join(f"$3\r\n{number:03}\r\n".encode() for number in range(200))
        assert wire.receive(len(echoes)) == echoes
        # One after another would take 40 s.
        assert time.monotonic() - start_s < 8
        assert proxy.requests.chunks > 20


@pytest.mark.parametrize("reset", [True, False])
def test_a_reply_is_cut_in_the_middle_once(proxy: Proxy, reset: bool) -> None:
    with Wire(proxy.port) as wire:
        wire.ask("SET", "a", "0123456789", expect=b"+OK\r\n")
        proxy.cut_after(8, reset=reset)
        wire.send("GET", "a")
        assert wire.receive(8) == b"$10\r\n012"
        if reset:
            with pytest.raises(ConnectionResetError):
                wire.receive(1)
        else:
            assert wire.receive(1) == b""
    assert proxy.cuts == 1
    with Wire(proxy.port) as wire:
        wire.ask("GET", "a", expect=b"$10\r\n0123456789\r\n")


def test_a_cut_before_the_first_byte_loses_the_reply_and_not_the_request(proxy: Proxy, server: Server) -> None:
    with Wire(proxy.port) as wire:
        proxy.cut_after(0)
        wire.send("INCR", "a")
        with pytest.raises(ConnectionResetError):
            wire.receive(1)
    assert server.command("GET", "a") == b"1"


def test_refusing_resets_and_refuses_until_it_listens_again(proxy: Proxy) -> None:
    with Wire(proxy.port) as wire:
        wire.ask("PING", expect=PONG)
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            wire.receive(1)
    with pytest.raises(ConnectionRefusedError):
        Wire(proxy.port)
    proxy.listen()
    with Wire(proxy.port) as wire:
        wire.ask("PING", expect=PONG)
        proxy.refuse(keep_connections=True)
        wire.ask("PING", expect=PONG)
        with pytest.raises(ConnectionRefusedError):
            Wire(proxy.port)


def test_connections_can_be_reset_while_clients_keep_coming_back(proxy: Proxy) -> None:
    is_over = threading.Event()

    def keep_asking() -> None:
        while not is_over.is_set():
            with contextlib.suppress(ConnectionError), Wire(proxy.port) as wire:
                wire.send("PING")
                wire.receive(len(PONG))

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(keep_asking) for _ in range(CLIENTS)]
        try:
            for _ in range(RESETS):
                proxy.reset_connections()
        finally:
            is_over.set()
        for client in clients:
            client.result(EVENTUALLY_S)
    with Wire(proxy.port) as wire:
        wire.ask("PING", expect=PONG)


def test_replies_into_a_black_hole_leave_the_request_done(proxy: Proxy, server: Server) -> None:
    with Wire(proxy.port) as wire:
        proxy.blackhole_replies()
        wire.send("INCR", "a")
        holds(server, "a", b"1")
        assert wire.is_silent(SILENCE_S)
        proxy.heal()
        assert wire.receive(4) == b":1\r\n"


def test_nothing_crosses_a_black_hole_until_it_heals(proxy: Proxy, server: Server) -> None:
    with Wire(proxy.port) as wire:
        proxy.blackhole()
        wire.send("INCR", "a")
        assert wire.is_silent(SILENCE_S)
        assert server.command("GET", "a") is None
        proxy.heal()
        assert wire.receive(4) == b":1\r\n"


def test_a_request_in_a_black_hole_arrives_late_although_its_client_has_gone(proxy: Proxy, server: Server) -> None:
    proxy.blackhole()
    with Wire(proxy.port) as wire:
        wire.send("INCR", "a")
        assert wire.is_silent(SILENCE_S)
    proxy.heal()
    holds(server, "a", b"1")


def test_healing_without_late_delivery_resets_what_was_held(proxy: Proxy, server: Server) -> None:
    with Wire(proxy.port) as wire:
        proxy.blackhole()
        wire.send("INCR", "a")
        assert wire.is_silent(SILENCE_S)
        proxy.heal(deliver_late=False)
        with pytest.raises(ConnectionResetError):
            wire.receive(1)
    with Wire(proxy.port) as wire:
        wire.ask("INCR", "a", expect=b":1\r\n")


def test_a_dead_server_behind_a_proxy_resets_its_clients() -> None:
    with Server() as server, Proxy(server.port) as proxy:
        with Wire(proxy.port) as wire:
            wire.ask("PING", expect=PONG)
            server.kill9()
            assert wire.receive(1) == b""
        with pytest.raises(ConnectionResetError), Wire(proxy.port) as wire:
            wire.receive(1)
        server.restart()
        with Wire(proxy.port) as wire:
            wire.ask("PING", expect=PONG)


def test_a_proxy_runs_as_a_process_too(server: Server) -> None:
    with ProxyProcess(server.port, delay_s=0.05) as proxy, Wire(proxy.port) as wire:
        start_s = time.monotonic()
        wire.ask("PING", expect=PONG)
        assert time.monotonic() - start_s >= 0.1


def test_tls_is_spoken_to_those_who_trust_the_authority(server: Server, authority: Authority) -> None:
    with tls_front(server.port, authority) as front:
        assert front.url.startswith("rediss://")
        assert over_tls(server, front, authority).ping()
        stranger = server.client(port=front.port, ssl=True)
        with pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.ping()


def test_a_client_certificate_can_be_required(server: Server, authority: Authority) -> None:
    mine = {"ssl_certfile": str(authority.client.certificate), "ssl_keyfile": str(authority.client.key)}
    with tls_front(server.port, authority, client_certificate=True) as front:
        assert over_tls(server, front, authority, **mine).ping()
        with pytest.raises(redis.ConnectionError):
            over_tls(server, front, authority).ping()


def test_a_certificate_for_another_name_is_not_accepted(server: Server, authority: Authority) -> None:
    with (
        Proxy(server.port, tls=authority.server_context("elsewhere.example")) as front,
        pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        over_tls(server, front, authority).ping()


def test_a_reply_over_tls_can_be_cut_too(server: Server, authority: Authority) -> None:
    with tls_front(server.port, authority) as front:
        client = over_tls(server, front, authority)
        assert client.ping()
        front.cut_after(3)
        with pytest.raises(redis.ConnectionError):
            client.ping()
        assert front.cuts == 1
        assert client.ping()
