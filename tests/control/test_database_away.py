"""A database that goes away and comes back: clear errors meanwhile, and afterwards all is as if nothing had been."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.control.changes import Changes, Outcome
from headgate.errors import StorageDown
from headgate.feed import Kind
from headgate.storage.sql import Database
from tests.control.conftest import Heard
from tests.control.state import head, names, rule, winners
from tests.servers.postgres import PASSWORD, Postgres


def test_changes_fail_clearly_while_the_database_is_away_and_go_on_when_it_is_back(heard: Heard) -> None:
    with Postgres() as server:
        database = Database(server.new_database(), connect_timeout_s=2)
        changes = Changes(database, committed=heard)
        changes.create(Kind.RULE, rule("a"), by="w")
        server.kill9()
        works: list[Callable[[], Outcome]] = [
            lambda: changes.create(Kind.RULE, rule("b", match={"user": "1"}), by="w"),
            lambda: changes.create(Kind.RULE, rule("b"), by="w", dry_run=True),
            lambda: changes.apply_document({"rules": []}, prune=True, by="w"),
            lambda: changes.apply_lines([b'{"name": "c", "by": "ip", "limit": "1/day"}'], by="w"),
            lambda: changes.rollback(0, by="w"),
        ]
        for work in works:
            with pytest.raises(StorageDown) as away:
                work()
            assert PASSWORD not in str(away.value)
        server.start()

        assert changes.create(Kind.RULE, rule("b", match={"user": "1"}), by="w").position.version == 2
        assert winners(changes, user="1") == ["b"]
        assert (names(database), head(database), len(heard.positions)) == (["a", "b"], 2, 2)
        database.close()
