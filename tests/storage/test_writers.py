"""Several control planes on one database: no update is lost, no version is skipped or taken twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.feed import Kind
from headgate.storage.sql import Changed, Database, bulk, entries, history
from tests.storage.interleaving import Writer, interleave
from tests.storage.made import change, put_rule, rule, rule_entry, state

IDS = ("r0", "r1", "r2")
TIMEOUT_S = 60

Stop = Callable[[], None]
Making = Callable[[Stop], None]


class SecondThoughts(Exception):
    """Raised inside a transaction to roll it back."""


def add(database: Database, entry_id: str) -> Making:
    """One more than was there: lost if somebody else's came between."""

    def make(stop: Stop) -> None:
        with database.write(timeout_s=TIMEOUT_S) as tx:
            stop()
            stored = entries.get(tx, Kind.RULE, entry_id)
            before = None if stored is None else stored.text
            count = 0 if stored is None else stored.body.get("priority", 0)
            tx.commit_version("ada", None, "replace", [put_rule(entry_id, before, priority=count + 1)])

    return make


def remove(database: Database, entry_id: str) -> Making:
    def make(stop: Stop) -> None:
        with database.write(timeout_s=TIMEOUT_S) as tx:
            stop()
            stored = entries.get(tx, Kind.RULE, entry_id)
            if stored is not None:
                tx.commit_version("ada", None, "delete", [Changed(Kind.RULE, entry_id, stored.text, None)])

    return make


def give_up(database: Database, entry_id: str) -> Making:
    def make(stop: Stop) -> None:
        with pytest.raises(SecondThoughts), database.write(timeout_s=TIMEOUT_S) as tx:
            tx.commit_version("ada", None, "create", [put_rule(f"never-{entry_id}")])
            stop()
            raise SecondThoughts

    return make


def apply(database: Database, entry_id: str) -> Making:
    def make(stop: Stop) -> None:
        with bulk.staging(database) as staged:
            staged.put([rule_entry(entry_id, group="bulk"), rule_entry("r9", group=entry_id)])
            with staged.write() as tx:
                stop()
                staged.merge(tx, "bob", None, "apply")

    return make


MAKINGS = (add, remove, give_up, apply)
script = st.lists(st.tuples(st.sampled_from(MAKINGS), st.sampled_from(IDS)), min_size=1, max_size=4)


def check_log(database: Database) -> None:
    """Versions follow one another, and the log leads from nothing to what is there, without a break."""
    with database.read() as tx:
        numbers = [version.version for version in history.versions(tx, limit=1_000)]
        assert numbers == list(range(tx.head.version, 0, -1))
        replayed: dict[tuple[Kind, str], str | None] = {}
        for number in reversed(numbers):
            made = list(history.all_changes(tx, number))
            version = history.version(tx, number)
            assert version is not None
            assert version.changes == len(made) > 0
            for one in made:
                assert replayed.get((one.kind, one.id)) == one.before, f"version {number} did not see what was there"
                assert one.before != one.after
                replayed[one.kind, one.id] = one.after
        there = {key: body for key, body in replayed.items() if body is not None}
        assert state(tx) == there
        assert not any(entry_id.startswith("never") for _, entry_id in there)
        for stored in entries.all_stored(tx, Kind.RULE):
            (last, *_) = history.of(tx, Kind.RULE, stored.id, limit=1)
            assert stored.version == last.version.version


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=script, second=script, order=st.lists(st.integers(0, 1), max_size=16))
def test_however_two_writers_interleave_nothing_is_lost(
    database_url: str,
    first: list[tuple[Callable[[Database, str], Making], str]],
    second: list[tuple[Callable[[Database, str], Making], str]],
    order: list[int],
) -> None:
    databases = [Database(database_url), Database(database_url)]
    scripts = zip(databases, (first, second), strict=True)
    writers = [Writer([making(database, entry_id) for making, entry_id in script]) for database, script in scripts]
    interleave(writers, order)
    check_log(databases[0])
    for database in databases:
        database.close()


def test_many_writers_at_once_take_one_version_each(database_url: str) -> None:
    databases = [Database(database_url) for _ in range(4)]
    change(databases[0], put_rule("r0", priority=0))

    def write(database: Database) -> None:
        for _ in range(10):
            add(database, "r0")(lambda: None)

    threads = [threading.Thread(target=write, args=[database]) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    check_log(databases[0])
    with databases[0].read() as tx:
        assert tx.head.version == 41
        stored = entries.get(tx, Kind.RULE, "r0")
        assert stored is not None
        assert stored.body["priority"] == 40
    for database in databases:
        database.close()


HOLD = """
import sys, time
from headgate.storage.sql import Database, Changed
from headgate.feed import Kind
with Database(sys.argv[1]).write() as tx:
    tx.commit_version("eve", None, "create", [Changed(Kind.RULE, "a", None, sys.argv[2])])
    print("inside", flush=True)
    time.sleep(600)
"""


def test_a_writer_that_is_killed_leaves_nothing_and_gives_the_lock_back(database: Database, database_url: str) -> None:
    command = [sys.executable, "-c", HOLD, database_url, rule("a")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        process.kill()
    assert change(database, put_rule("b")) == 1
    with database.read() as tx:
        assert set(state(tx)) == {(Kind.RULE, "b")}
