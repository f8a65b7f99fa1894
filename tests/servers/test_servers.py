"""One server: what its helper promises to the tests that stand on it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.servers.binaries import Flavour, flavours
from tests.servers.ports import BUS_OFFSET, HOST, free_cluster_port, free_port
from tests.servers.server import Server, StartFailed
from tests.servers.waiting import NotInTime, wait_for

SHORT_S = 0.2
DEATH_TIMEOUT_S = 20
PROJECT = Path(__file__).parents[2]


@pytest.fixture(params=flavours(), ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    flavour: Flavour = request.param
    with Server(flavour.require()) as server:
        yield server


def is_refused(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_server_answers_on_its_port_and_on_its_socket(server: Server) -> None:
    server.client().set("a", "1")
    with redis.Redis(unix_socket_path=str(server.socket_path)) as client:
        assert client.get("a") == b"1"
    with redis.Redis.from_url(server.url) as client:
        assert client.get("a") == b"1"


def test_a_killed_server_refuses_and_a_restarted_one_is_empty_on_the_same_port(server: Server) -> None:
    client = server.client()
    client.set("a", "1")
    digest = client.script_load("return 1")
    before = server.pid
    server.kill9()
    assert not server.is_running
    assert is_refused(server.port)
    server.restart()
    assert server.pid != before
    assert client.get("a") is None
    assert client.script_exists(digest) == [False]


def test_a_stopped_server_is_silent_until_it_is_continued(server: Server) -> None:
    client = server.client(socket_timeout=SHORT_S)
    client.ping()
    server.stop_signal()
    with pytest.raises(redis.TimeoutError):
        client.incr("a")
    server.cont()
    assert server.client().ping()


def test_a_stopped_server_can_be_closed_and_leaves_nothing(server: Server) -> None:
    folder, port = server.folder, server.port
    server.stop_signal()
    server.close()
    assert is_refused(port)
    assert not folder.exists()


def test_a_start_that_fails_shows_what_the_server_said() -> None:
    with pytest.raises(StartFailed, match="no-such-option"):
        Server(args=("--no-such-option", "1"))


def test_a_start_on_a_taken_port_fails_although_something_answers_there(server: Server) -> None:
    with pytest.raises(StartFailed, match=r"(?i)address already in use"):
        Server(server.binary, port=server.port)


def test_a_password_and_users_are_asked_for() -> None:
    users = ("app on >secret ~hg1:* +get +set +ping",)
    with Server(password="p/w@1", users=users) as server:
        with redis.Redis.from_url(server.url) as owner:
            assert owner.set("other", "1")
        app = server.client(username="app", password="secret")
        assert app.set("hg1:a", "1")
        with pytest.raises(redis.exceptions.NoPermissionError):
            app.get("other")
        with pytest.raises(redis.AuthenticationError):
            server.client(password=None).ping()


def test_a_full_server_refuses_writes_or_forgets_as_its_policy_says() -> None:
    with Server(maxmemory="1kb", maxmemory_policy="noeviction") as server:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            server.client().set("a", "1")
        assert server.client().config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


# Tests that run in the background of a shell are deaf to SIGINT, and so is what they start unless it says otherwise.
STARTS_ONE = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.servers.server import Server
server = Server()
print(server.port, server.folder, flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda end: end.name)
def test_servers_die_with_the_process_that_started_them(ended_by: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTS_ONE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=PROJECT, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        port, folder = process.stdout.readline().decode().split()
        assert not is_refused(int(port))
        process.send_signal(ended_by)
    wait_for("the orphan's end", lambda: is_refused(int(port)) and not Path(folder).exists(), DEATH_TIMEOUT_S)


def test_a_fork_that_ends_takes_no_server_with_it() -> None:
    with Server() as server:
        child = os.fork()
        if child == 0:
            server.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.client().ping()
        assert server.folder.exists()


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    with socket.create_server((HOST, 0)) as listener, socket.create_connection(listener.getsockname()) as outgoing:
        outgoing_port = outgoing.getsockname()[1]
    ports = {free_port() for _ in range(50)} | {free_cluster_port() + BUS_OFFSET for _ in range(50)}
    assert len(ports) == 100
    assert max(ports) < min(outgoing_port, 65_536)


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(NotInTime, match=r"a miracle\nstill none"):
        wait_for("a miracle", lambda: False, 0.05, lambda: "still none")
