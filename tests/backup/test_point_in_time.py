"""PostgreSQL's base backup and archive, and what becomes of the fleet when its database has gone back in time."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.backup.page import Places, commands, options, shown
from tests.servers.postgres import NOBODY, PASSWORD, USER, Postgres, binaries
from tests.servers.program import SOON_S, Control, Node
from tests.servers.server import Server
from tests.servers.waiting import wait_for

WRITTEN_DATA = "/var/lib/postgresql/17/main"
WRITTEN_BACKUPS = "/var/backups/headgate"
WRITTEN_MOMENT = "2026-11-16 10:41:00+00"


class Kept:
    """A PostgreSQL with an archive, as the page sets it up."""

    def __init__(self, folder: Path) -> None:
        self.backups = folder / "backups"
        user = NOBODY if os.getuid() == 0 else None
        if user is not None:
            os.chown(folder, user, user)
        before = Places({WRITTEN_BACKUPS: str(self.backups)}, user=user)
        for command in commands("The archive"):
            before.run(command)
        settings = {name: before.adapted(value) for name, value in options("The archive").items()}
        self.server = Postgres(settings=list(settings.items()))
        self.server.execute(shown("The archive", "sql").replace("a-password-of-its-own", PASSWORD))
        self.places = Places(
            {
                WRITTEN_BACKUPS: str(self.backups),
                WRITTEN_DATA: str(self.server.folder / "data"),
                "--username postgres": f"--username {USER} --dbname postgres",
            },
            {
                "PATH": f"{binaries()}{os.pathsep}{os.environ['PATH']}",
                "PGPORT": str(self.server.port),
                "PGPASSWORD": PASSWORD,
            },
            user,
        )

    def back_up(self) -> None:
        for command in commands("The base backup, daily"):
            # The one from PyPI crashes, whatever it is asked.
            if command.startswith("pg_verifybackup ") and not _works("pg_verifybackup"):
                continue
            self.places.run(command)

    def go_back(self, moment: str) -> None:
        """Every step of the page; those of systemd are ours."""
        newest, *_ = commands("Back to a moment")
        segment = self.segment()
        self.places.run(newest)
        wait_for("the archive", (self.backups / "wal" / segment).exists, SOON_S)
        configuration = shown("Back to a moment", "ini")
        assert WRITTEN_MOMENT in configuration
        self._recover(configuration.replace(WRITTEN_MOMENT, moment))

    def go_to_the_last_second(self) -> None:
        lines = shown("Back to a moment", "ini").splitlines(keepends=True)
        self._recover(
            "".join(line for line in lines if WRITTEN_MOMENT not in line), commands("Back to the last second")
        )

    def _recover(self, configuration: str, more: Sequence[str] = ()) -> None:
        _, stop, *steps, start = commands("Back to a moment")
        assert (stop, start) == ("systemctl stop postgresql", "systemctl start postgresql")
        # Not an orderly end, since it is when there was none that backups are needed.
        self.server.kill9()
        for command in (*steps, *more):
            self.places.run(command)
        with (self.server.folder / "data" / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.write(self.places.adapted(configuration))
        self.server.start()

    def segment(self) -> str:
        ((name,),) = self.server.execute("SELECT pg_walfile_name(pg_current_wal_lsn())")
        assert isinstance(name, str)
        return name


def _works(program: str) -> bool:
    command = [str(binaries() / program), "--version"]
    return subprocess.run(command, capture_output=True, timeout=SOON_S, check=False).returncode == 0


@pytest.fixture
def kept() -> Iterator[Kept]:
    folder = Path(tempfile.mkdtemp(prefix="hg-backups-"))
    try:
        kept = Kept(folder)
        with kept.server:
            yield kept
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_recovered_database_begins_a_new_epoch_and_nodes_follow_it(kept: Kept, tmp_path: Path) -> None:
    url = kept.server.empty_database()
    with (
        Server() as broker,
        Control(tmp_path / "control", url, "--regions", f"eu={broker.url}") as control,
        Node(tmp_path / "by-broker", broker.url) as by_broker,
        Node(tmp_path / "by-http", control.url) as by_http,
    ):
        nodes = (by_broker, by_http)
        control.put_rule("login", "5/minute")
        kept.back_up()
        control.put_rule("search", "7/minute")
        ((moment,),) = kept.server.execute("SELECT clock_timestamp()::text")
        control.ask("DELETE", "/rules/login")
        control.put_rule("search", "9/minute")
        control.put_rule("mistake", "1/minute")
        for node in nodes:
            node.comes_to(login=None, search=9, mistake=1)
        before = control.ask("GET", "/fleet")["head"]

        kept.go_back(moment)

        for node in nodes:
            node.comes_to(login=5, search=7, mistake=None)
        head = control.answers("GET", "/fleet")["head"]
        assert int(head.split(".")[0]) > int(before.split(".")[0])
        assert shown("After a restore", "text").strip() in control.log()
        # And everything goes on: nobody was restarted, and the numbers that are given out again do not matter.
        control.answers("PUT", "/rules/login", name="login", match={"endpoint": "/login"}, by="user", limit="6/minute")
        for node in nodes:
            node.comes_to(login=6, search=7, mistake=None)
        assert control.is_running
        assert all(node.is_running for node in nodes)


def test_what_was_not_archived_yet_comes_back_as_well(kept: Kept) -> None:
    server = kept.server
    server.execute("CREATE TABLE kept (what text)")
    kept.back_up()
    server.execute("INSERT INTO kept VALUES ('archived')")
    segment = kept.segment()
    server.execute("SELECT pg_switch_wal()")
    wait_for("the archive", (kept.backups / "wal" / segment).exists, SOON_S)
    server.execute("INSERT INTO kept VALUES ('the last second')")
    # A crash of the process: what was committed has been handed to the kernel.
    server.execute("CHECKPOINT")

    kept.go_to_the_last_second()

    wait_for("the end of recovery", lambda: server.execute("SELECT pg_is_in_recovery()") == [(False,)], SOON_S)
    assert server.execute("SELECT what FROM kept ORDER BY what") == [("archived",), ("the last second",)]


def test_an_epoch_begun_by_hand_makes_nodes_take_everything_anew(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.empty_database()
    with Control(tmp_path / "control", url) as control, Node(tmp_path / "node", control.url) as node:
        control.put_rule("login", "5/minute")
        node.comes_to(login=5)
        before = control.ask("GET", "/fleet")["head"]
        postgres.execute(shown("After a restore", "sql"), url.rpartition("/")[2])

        def heads() -> bool:
            fleet = control.ask("GET", "/fleet")
            return fleet["head"] != before and [node["position"] for node in fleet["nodes"]] == [fleet["head"]]

        wait_for("the new epoch at the node", heads, SOON_S)
        assert node.limit_of("login") == 5
        control.put_rule("login", "6/minute")
        node.comes_to(login=6)
