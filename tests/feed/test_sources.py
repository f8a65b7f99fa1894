"""Sources one by one: databases and files as they change, and texts that are no source."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.feed.codec import write_snapshot
from headgate.feed.entry import Kind, Position
from headgate.feed.places import is_feed
from headgate.storage.sql import Changed, Database, entries, fleet
from headgate.upkeep.feed import NoRules, SourceError, make_source, make_sources
from headgate.upkeep.feed.source import Deltas, Nothing, TakeSnapshot
from tests.feed.following import SOON_S, Following, following
from tests.feed.toy_control import KEY, ToyControl, ToyFeed
from tests.servers.postgres import Postgres
from tests.servers.waiting import wait_for


def add(database: Database, *names: str) -> Position:
    """One change with these rules."""
    with database.write() as tx:
        made = [Changed(Kind.RULE, name, None, json.dumps({"name": name})) for name in names]
        tx.commit_version("ann", None, "create", made)
        return tx.head


def polled(url: str) -> str:
    return url.replace("postgresql://", "postgresql+poll://")


def test_a_database_is_polled(database: Database, database_url: str) -> None:
    head = add(database, "a", "b")
    with following(polled(database_url)) as node:
        assert node.rules() == {"a", "b"}
        assert node.position == head
        with database.write() as tx:
            tx.commit_version("ann", None, "delete", [Changed(Kind.RULE, "a", '{"name":"a"}', None)])
        head = add(database, "c")
        node.reaches(head)
        assert node.rules() == {"b", "c"}


def test_a_node_that_reads_the_database_is_seen_in_its_fleet(database: Database, database_url: str) -> None:
    head = add(database, "a")

    def seen() -> list[fleet.Beat]:
        with database.read() as tx:
            return [beat for beat in fleet.all(tx) if beat.position == head]

    with following(polled(database_url)) as node:
        (beat,) = wait_for("a heartbeat", seen, SOON_S, node.describe)
        assert (beat.node, beat.region) == ("n1", "r1")
        assert json.loads(beat.body)["rules"] == 1


def test_notify_tells_at_once(postgres_url: str) -> None:
    database = Database(postgres_url)
    source = make_source(postgres_url, key=KEY, poll_s=3600)
    head = add(database, "a")
    with following([source]) as node:
        node.reaches(head)
        for name in "bcd":
            node.reaches(add(database, name))
        assert node.rules() == set("abcd")
    database.close()


def test_a_database_says_what_its_newest_change_is_and_when(database: Database, database_url: str) -> None:
    source = make_source(polled(database_url), key=KEY, poll_s=0.01)
    before = add(database, "a")
    assert source.changes(before, 0) == Nothing()
    for name in "bc":
        head = add(database, name)
    answer = source.changes(before, 0)
    assert isinstance(answer, Deltas)
    assert len(answer.raw) == 1
    assert isinstance(source.changes(Position(before.epoch - 1, 7), 0), TakeSnapshot)
    with pytest.raises(SourceError, match="behind what is enforced"):
        source.changes(Position(head.epoch, head.version + 1), 0)
    source.close()


def test_a_database_that_went_back_in_time_is_not_gone_on_with(sqlite_url: str, tmp_path: Path) -> None:
    """Its versions are given out again, for other changes."""
    url = f"sqlite:///{tmp_path / 'used.db'}"
    shutil.copy(sqlite_url.removeprefix("sqlite:///"), tmp_path / "used.db")
    database = Database(url)
    kept = add(database, "a")
    database.close()
    shutil.copy(tmp_path / "used.db", tmp_path / "kept.db")
    database = Database(url)
    lost = add(database, "lost")
    source = make_source(url, key=KEY, poll_s=0.01)
    assert source.changes(lost, 0) == Nothing()
    database.close()
    for name in ("used.db-wal", "used.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    os.replace(tmp_path / "kept.db", tmp_path / "used.db")
    source.close()

    source = make_source(url, key=KEY, poll_s=0.01)
    with pytest.raises(SourceError, match="behind what is enforced"):
        source.changes(lost, 0)
    database = Database(url)
    assert add(database, "b") > kept
    assert source.changes(lost, 0) == Nothing(), "it may be a replica"
    head = add(database, "c")
    assert isinstance(source.changes(lost, 0), TakeSnapshot)
    assert isinstance(source.changes(lost, 0), TakeSnapshot), "until it is taken"
    assert source.changes(head, 0) == Nothing()
    source.close()
    database.close()


def test_a_new_epoch_of_the_database_is_followed(database: Database, database_url: str) -> None:
    add(database, "a")
    with following(polled(database_url)) as node:
        with database.write() as tx:
            tx.new_epoch()
        node.reaches(add(database, "b"))
        assert node.rules() == {"a", "b"}


def test_a_bulk_of_changes_comes_as_a_snapshot(database: Database, database_url: str) -> None:
    before = add(database, "a")
    source = make_source(polled(database_url), key=KEY, poll_s=0.01)
    add(database, *(f"r{number}-{'x' * 900}" for number in range(2400)))
    assert isinstance(source.changes(before, 0), TakeSnapshot)
    source.close()


@pytest.mark.usefixtures("impatient")
def test_a_file_of_sqlite_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    node = Following(f"sqlite:///{tmp_path}/none.db")
    node.follower.start()
    with pytest.raises(NoRules, match=r"there is no file .*none\.db"):
        node.follower.first(SOON_S)
    node.follower.stop()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("impatient")
def test_a_database_without_tables_is_said_so(postgres: Postgres) -> None:
    node = Following(postgres.empty_database())
    node.follower.start()
    with pytest.raises(NoRules, match="has no tables of Headgate"):
        node.follower.first(SOON_S)
    node.follower.stop()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.mark.parametrize("how", ["notify", "poll"])
def test_postgresql_stopped_and_back(own_postgres: Postgres, how: str) -> None:
    url = own_postgres.new_database()
    database = Database(url)
    head = add(database, "a")
    with following(url if how == "notify" else polled(url)) as node:
        node.reaches(head)
        own_postgres.stop()
        wait_for("its loss", lambda: node.follower.status().source is None, SOON_S, node.describe)
        assert node.rules() == {"a"}
        own_postgres.start()
        node.reaches(add(database, "b"))
        assert "a-password-for-tests" not in node.describe()
    database.close()


def test_a_database_that_hangs_is_left_for_the_next_of_the_ladder(own_postgres: Postgres, tmp_path: Path) -> None:
    url = own_postgres.new_database()
    database = Database(url)
    add(database, "a")
    with following(url) as first:
        position = first.position
    with database.read() as tx, (tmp_path / "rules.hgs").open("wb") as file:
        write_snapshot(file, KEY, tx.head, 1, entries.all(tx))
    with following(f"{url},{tmp_path}/rules.hgs") as node:
        node.uses(str(own_postgres.port))
        own_postgres.hang()
        try:
            node.uses("rules.hgs")
            assert node.position == position
            assert node.rules() == {"a"}
        finally:
            own_postgres.cont()
        node.reaches(add(database, "b"))
    database.close()


def test_a_snapshot_file_is_watched(tmp_path: Path) -> None:
    control = ToyControl(tmp_path / "control")
    control.rule("a")
    place = tmp_path / "rules.hgs"
    shutil.copy(control.snapshot_path, place)
    older = place.read_bytes()
    with following(str(place)) as node:
        node.has_what(control)
        control.rule("b")
        replace(place, control.snapshot_path.read_bytes())
        node.has_what(control)
        replace(place, older)
        wait_for("an error", lambda: node.follower.status().error, SOON_S, node.describe)
        assert "holds older rules" in str(node.follower.status().error)
        node.has_what(control)


def replace(place: Path, raw: bytes) -> None:
    draft = place.with_suffix(".draft")
    draft.write_bytes(raw)
    os.replace(draft, place)


def test_a_feed_that_answers_byte_by_byte_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.upkeep.feed.http_source.ANSWER_TIMEOUT_S", 0.5)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(b"H")
                        time.sleep(0.05)
                except OSError:
                    pass

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        source = make_source(f"http://127.0.0.1:{listener.getsockname()[1]}", key=KEY, poll_s=1)
        with pytest.raises(SourceError):
            source.connect()
        source.close()
        thread.join(SOON_S)


def test_https_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.servers.tls import Authority, tls_front

    control = ToyControl(tmp_path / "control")
    control.rule("a")
    authority = Authority(tmp_path)
    with ToyFeed(control) as feed, tls_front(feed.port, authority) as front:
        url = f"https://127.0.0.1:{front.port}"
        source = make_source(url, key=KEY, poll_s=1)
        with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
            source.connect()
        source.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        with following(url) as node:
            node.has_what(control)


@pytest.mark.parametrize(
    ("text", "feed"),
    [
        ("rules.yaml", False),
        ("/etc/headgate/rules.json", False),
        ("rules.hgs", True),
        ("https://control", True),
        ("redis://a,https://b", True),
        ("ftp://x", True),
    ],
)
def test_a_feed_is_told_from_a_file(text: str, feed: bool) -> None:
    assert is_feed(text) is feed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ftp://user:secret@host/rules", "this is no source of rules; expected redis://"),
        ("file:///etc/rules.yaml", "this is no source of rules"),
        ("https://user:secret@control", "no password"),
        ("https://control?token=secret", "no password or options"),
        ("https://:0x", "no URL of a control plane|expected https"),
        ("redis://:secret@host?nonsense=1", "is no option"),
        ("redis://a:secret@b,redis://a:secret@b", "given twice"),
        (" , ", "expected 1 to 8 sources"),
        (",".join(f"http://h{number}" for number in range(9)), "expected 1 to 8 sources"),
    ],
)
def test_what_is_no_source_is_refused_without_its_password(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        make_sources(text, key=KEY, poll_s=30)
    assert "secret" not in str(caught.value)


def test_a_control_plane_that_lost_its_database_proves_nothing(tmp_path: Path) -> None:
    control = ToyControl(tmp_path / "control")
    with ToyFeed(control) as feed:
        source = make_source(feed.url, key=KEY, poll_s=1)
        assert source.changes(control.position, 0) == Nothing()
        (control.folder / "age").write_text("31")
        assert source.changes(control.position, 0) == Nothing(is_proof=False)
        source.close()


def test_without_what_control_brings_the_error_names_it() -> None:
    program = (
        "import sys; sys.modules.update(redis=None, sqlalchemy=None, psycopg=None)\n"
        "from headgate.errors import ConfigError\n"
        "from headgate.upkeep.feed import make_source\n"
        "for url in ('redis://:secret@h', 'postgresql://u:secret@h/d', 'sqlite:///x.db'):\n"
        "    try: make_source(url, key=b'k' * 32, poll_s=1)\n"
        "    except ConfigError as error: print(error)\n"
        "make_source('https://h', key=b'k' * 32, poll_s=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("headgate[control]") == 3
    assert "secret" not in done.stdout
