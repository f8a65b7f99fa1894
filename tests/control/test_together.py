"""Several control planes on one database: nobody's change is lost, no version is skipped or given twice."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from headgate.control.changes import Changes
from headgate.control.errors import Exists, Stale
from headgate.errors import StorageDown
from headgate.feed import Kind, Position
from headgate.storage.sql import Database, WriteTransaction
from tests.control.state import bodies, head, names, rule, stored, versions, winners

ROUNDS = 12


@pytest.fixture
def planes(database_url: str) -> Iterator[list[Changes]]:
    """Two control planes, each with connections and a mirror of its own."""
    databases = [Database(database_url), Database(database_url)]
    yield [Changes(database) for database in databases]
    for database in databases:
        database.close()


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Each on a thread of its own, begun together; what they gave, or what they raised."""
    start = threading.Barrier(len(works))

    def begun(work: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return work()
        except (Exists, Stale) as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(begun, work) for work in works]]


def test_every_increment_of_every_writer_is_there_in_the_end(planes: list[Changes]) -> None:
    """The classic lost update: read, add one, write, guarded by the version that was read."""
    planes[0].create(Kind.RULE, rule("counted", priority=0), by="start")

    def increment(plane: Changes) -> None:
        done = 0
        while done < ROUNDS:
            read = stored(plane.database, Kind.RULE, "counted")
            more = {"priority": read.body["priority"] + 1}
            with contextlib.suppress(Stale):
                plane.patch(Kind.RULE, "counted", more, by="w", expect=read.version)
                done += 1

    at_once(*[partial(increment, plane) for plane in planes])
    assert bodies(planes[0].database)[Kind.RULE, "counted"]["priority"] == 2 * ROUNDS
    assert [one.version for one in versions(planes[0].database)] == list(range(2 * ROUNDS + 1, 0, -1))


def test_patches_of_different_fields_do_not_undo_each_other(planes: list[Changes]) -> None:
    planes[0].create(Kind.RULE, rule("shared"), by="start")
    for nth in range(1, ROUNDS + 1):
        at_once(
            partial(planes[0].patch, Kind.RULE, "shared", {"priority": nth}, by="a"),
            partial(planes[1].patch, Kind.RULE, "shared", {"description": f"round {nth}"}, by="b"),
        )
        body = bodies(planes[0].database)[Kind.RULE, "shared"]
        assert (body["priority"], body["description"]) == (nth, f"round {nth}")


def test_of_two_who_create_one_name_one_succeeds(planes: list[Changes]) -> None:
    for nth in range(ROUNDS):
        found = at_once(*[partial(plane.create, Kind.RULE, rule(f"r{nth}"), by="w") for plane in planes])
        assert sorted(type(one).__name__ for one in found) == ["Exists", "Outcome"]
    assert head(planes[0].database) == ROUNDS


def test_single_changes_and_bulk_changes_get_along(planes: list[Changes]) -> None:
    lines = [json.dumps(rule(f"bulk-{nth:04}", match={"user": str(nth)})) for nth in range(500)]
    heard: list[Position] = []

    def singles() -> None:
        made = (planes[0].create(Kind.RULE, rule(f"single-{nth:02}", by="org"), by="a") for nth in range(ROUNDS))
        heard.extend(one.position for one in made)

    def bulks() -> None:
        made = (planes[1].apply_lines(lines[:count], by="b") for count in (100, 200, 300))
        heard.extend(one.position for one in made)

    at_once(singles, bulks)
    assert sorted(position.version for position in heard) == list(range(1, ROUNDS + 4))
    assert len(names(planes[0].database)) == ROUNDS + 300
    # Both mirrors know what the other did.
    for plane in planes:
        assert sorted(winners(plane, user="299", org="1")) == ["bulk-0299", "single-00"]


def test_threads_of_one_control_plane_do_not_get_in_each_others_way(planes: list[Changes]) -> None:
    plane = planes[0]

    def work(who: int) -> None:
        for nth in range(4):
            plane.create(Kind.RULE, rule(f"w{who}-{nth}", match={"user": str(who)}), by=f"w{who}")
            plane.create(Kind.RULE, rule("tried", match={"user": "x"}), by=f"w{who}", dry_run=True)
            if nth:
                plane.delete(Kind.RULE, f"w{who}-{nth}", by=f"w{who}")

    at_once(*[partial(work, who) for who in range(5)])
    assert names(plane.database) == [f"w{who}-0" for who in range(5)]
    assert head(plane.database) == 5 * 7
    assert winners(plane, user="x") == []


def test_a_commit_that_fails_leaves_the_mirror_as_the_database_is(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.create(Kind.RULE, rule("a"), by="w")

    def fail(self: WriteTransaction, *args: object, **kwargs: object) -> int:
        raise StorageDown("the database went away")

    with monkeypatch.context() as patched:
        patched.setattr(WriteTransaction, "finish_version", fail)
        with pytest.raises(StorageDown):
            changes.replace(Kind.RULE, "a", rule("a", by="ip"), by="w")
        with pytest.raises(StorageDown):
            changes.create(Kind.RULE, rule("b", match={"user": "b"}), by="w")
        with pytest.raises(StorageDown):
            changes.apply_document({"rules": [rule("c", match={"user": "b"})]}, prune=True, by="w")
    assert winners(changes, user="b") == ["a"]
    assert changes.create(Kind.RULE, rule("b", match={"user": "b"}), by="w").position.version == 2
    assert winners(changes, user="b") == ["b"]


def test_a_new_epoch_is_followed(planes: list[Changes]) -> None:
    """A database that was restored: what is there now has nothing to do with what the mirror has seen."""
    first, second = planes
    first.create(Kind.RULE, rule("a"), by="w")
    assert winners(second, user="1") == ["a"]
    with first.database.write() as tx:
        tx.new_epoch()
    outcome = second.create(Kind.RULE, rule("b", match={"user": "1"}), by="w")
    assert outcome.position.version == 2
    assert winners(first, user="1") == ["b"]
