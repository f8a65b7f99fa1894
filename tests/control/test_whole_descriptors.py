"""Rules for whole descriptors in a control plane: kept, judged by the mirror, and no contestants of rules for facts."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.shown import match_text
from headgate.control.changes import Changes
from headgate.control.errors import Invalid
from headgate.feed import Kind
from headgate.storage.sql import entries
from tests.control.state import rule, stored, winners

ANN = "ann"


def whole(name: str = "whole", **fields: Any) -> dict[str, Any]:
    exact = {"domain": "edge", "entries": [{"key": "path", "value": 7}, {"key": "user"}]}
    return {"name": name, "match": {"descriptor_exact": exact}, "limit": "5/minute"} | fields


def test_one_is_kept_as_it_was_written_numbers_as_texts(changes: Changes) -> None:
    changes.create(Kind.RULE, whole(replaces=[8]), by=ANN)
    body = stored(changes.database, Kind.RULE, "whole").body
    exact = {"domain": "edge", "entries": [{"key": "path", "value": "7"}, {"key": "user"}]}
    assert body == {"name": "whole", "match": {"descriptor_exact": exact}, "limit": "5/minute", "replaces": ["8"]}
    assert match_text(body["match"]) == "edge: path=7, user"


def test_it_takes_no_request_from_a_rule_for_facts(changes: Changes) -> None:
    changes.create(Kind.RULE, rule("everyone"), by=ANN)
    told = changes.create(Kind.RULE, whole(), by=ANN, dry_run=True)
    assert told.contests == ()
    changes.create(Kind.RULE, whole(), by=ANN)
    assert winners(changes, user="1", path="7") == ["everyone"]
    assert changes.create(Kind.RULE, rule("path", match={"endpoint": "/x"}), by=ANN, dry_run=True).contests


def test_it_is_found_by_no_fact(changes: Changes) -> None:
    changes.create(Kind.RULE, whole(), by=ANN)
    with changes.database.read() as tx:
        found = entries.page(tx, Kind.RULE, limit=9, after=None, filters={"user": "1"}, search=None)
        assert list(found) == []
        assert [one.id for one in entries.page(tx, Kind.RULE, limit=9, after=None, filters={}, search=None)] == [
            "whole"
        ]


def test_a_mistake_in_one_is_told_with_its_path(changes: Changes) -> None:
    with pytest.raises(Invalid) as raised:
        changes.create(Kind.RULE, whole(by="user"), by=ANN)
    assert [path for path, _ in raised.value.mistakes] == ["by"]
