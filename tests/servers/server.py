"""One server, Redis or Valkey, empty at every start."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.binaries import valkey
from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import NotInTime, wait_for

START_TIMEOUT_S = 20
CLIENT_TIMEOUT_S = 5


class StartFailed(RuntimeError):
    """The server did not come up; the message ends with its log."""


class Server(Closing):
    """Starts at once; use as a context manager or `close()` it. `args` are more options: `("--hz", "100")`.

    `users` are ACL lines as in a configuration file: `"app on >secret ~hg1:* +@all"`.
    """

    def __init__(
        self,
        binary: Path | None = None,
        *,
        port: int | None = None,
        password: str | None = None,
        users: Sequence[str] = (),
        maxmemory: str | None = None,
        maxmemory_policy: str | None = None,
        args: Sequence[str] = (),
    ) -> None:
        self.binary = binary or valkey()
        self.port = port or free_port()
        self.password = password
        # Not under pytest's tmp_path: its long names do not fit in a Unix socket's address.
        self.folder = Path(tempfile.mkdtemp(prefix="hg-server-"))
        self.socket_path = self.folder / "server.sock"
        self._options = [*_options(password, users, maxmemory, maxmemory_policy), *args]
        self._clients: list[redis.Redis] = []
        self._process: Process | None = None
        self._is_stopped = False
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Server({self.address}, pid {self._process.pid if self._process else None})"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return self.url_for("", self.password) if self.password else f"redis://{self.address}"

    @property
    def unix_url(self) -> str:
        secret = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"unix://{secret}{self.socket_path}"

    def url_for(self, user: str, password: str) -> str:
        return f"redis://{quote(user, safe='')}:{quote(password, safe='')}@{self.address}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def is_answering(self) -> bool:
        return self.is_running and not self._is_stopped

    def command(self, *words: str | bytes | int) -> Any:
        """The bare RESP2 reply, read by no client library's idea of it; an error is raised."""
        execute: Callable[..., Any] = self._admin.execute_command
        return execute(*words)

    @cached_property
    def _admin(self) -> redis.Redis:
        client = self.client(protocol=2)
        client.response_callbacks.clear()
        return client

    def client(self, **options: Any) -> redis.Redis:
        """A client that neither decodes nor retries, closed with the server. Options are redis-py's."""
        client = redis.Redis(**{**self._client_defaults(), **options})
        self._clients.append(client)
        return client

    def kill9(self) -> None:
        """As by a crash: clients see their connections reset or closed, then refused."""
        self._running().kill()

    def stop_signal(self) -> None:
        """Hangs it: the kernel goes on accepting connections and bytes, and nothing answers."""
        self._running().hang()
        self._is_stopped = True

    def cont(self) -> None:
        self._running().send(signal.SIGCONT)
        self._is_stopped = False

    def restart(self) -> None:
        """On the same port with nothing in it: no keys, no scripts. A cluster node knows its cluster again."""
        self._running().kill()
        self._start()

    def close(self) -> None:
        if self._process is not None and not self._process.is_ours:
            return
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self._process is not None:
            self._process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self) -> str:
        return self._running().log_tail()

    def _running(self) -> Process:
        assert self._process is not None, "the server was never started"
        return self._process

    def _client_defaults(self) -> dict[str, Any]:
        return {
            "host": HOST,
            "port": self.port,
            "password": self.password,
            "socket_timeout": CLIENT_TIMEOUT_S,
            "socket_connect_timeout": CLIENT_TIMEOUT_S,
            "retry": Retry(NoBackoff(), 0),
        }

    def _command_line(self) -> list[str | Path]:
        return [self.binary, "--port", str(self.port), "--unixsocket", self.socket_path, *self._options]

    def _start(self) -> None:
        self.socket_path.unlink(missing_ok=True)
        self._is_stopped = False
        process = self._process = Process(self._command_line(), self.folder)
        with redis.Redis(**self._client_defaults()) as client:
            try:
                wait_for(f"{self.binary.name} on {self.address}", lambda: _is_up(process, client), START_TIMEOUT_S)
            except (NotInTime, StartFailed) as error:
                process.kill()
                raise StartFailed(f"{error}\n{process.log_tail()}") from error


def _options(
    password: str | None, users: Sequence[str], maxmemory: str | None, maxmemory_policy: str | None
) -> list[str]:
    options = ["--bind", HOST, "--save", "", "--appendonly", "no", "--loglevel", "notice", "--daemonize", "no"]
    # A replica otherwise waits 5 s for others to share its first copy with.
    options += ["--repl-diskless-sync-delay", "0"]
    given = {"--requirepass": password, "--maxmemory": maxmemory, "--maxmemory-policy": maxmemory_policy}
    for name, value in given.items():
        if value is not None:
            options += [name, value]
    for user in users:
        options += ["--user", *user.split()]
    return options


def _is_up(process: Process, client: redis.Redis) -> bool:
    if process.exit_code is not None:
        raise StartFailed("the server ended at once")
    try:
        # Another process may have taken the port: then ours is about to end, and this answer is not its own.
        return bool(client.info("server")["process_id"] == process.pid)
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError):
        return True


def replication_is_up(replica: Server) -> bool:
    """Whether it has its primary's keys and follows it."""
    role = replica.command("ROLE")
    return bool(role[0] == b"slave" and role[3] == b"connected")
