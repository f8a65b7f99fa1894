"""Blocks and switches wait for nothing but the database."""

from __future__ import annotations

import threading

import pytest

from headgate.control import mirror
from headgate.control.changes import Changes
from headgate.control.errors import Invalid, NotThere
from headgate.feed import Kind
from tests.control.conftest import Heard
from tests.control.state import bodies, head, rule

ANN = "ann"
SOON_S = 20.0


def test_an_emergency_does_not_wait_for_a_mirror_that_is_being_made(changes: Changes, heard: Heard) -> None:
    changes.create(Kind.RULE, rule("a"), by=ANN)
    made, over = threading.Event(), threading.Event()

    def making() -> None:
        with changes.mirror.held():
            made.set()
            over.wait(SOON_S)

    other = threading.Thread(target=making)
    other.start()
    assert made.wait(SOON_S)
    try:
        block = changes.add_block({"ip": "203.0.113.0/24", "for": "1h"}, by=ANN).entry
        changes.switch("a", by=ANN)
        changes.switch("*", by=ANN)
        changes.unswitch("*", by=ANN)
        assert not changes.switch("a", by=ANN).changed
        with pytest.raises(Invalid):
            changes.add_block({"ip": "203.0.113.0/99"}, by=ANN)
        with pytest.raises(NotThere):
            changes.switch("nobody", by=ANN)
        assert not over.is_set()
    finally:
        over.set()
        other.join(SOON_S)
    assert block is not None
    assert {(Kind.BLOCK, block.id), (Kind.SWITCH, "a")} < set(bodies(changes.database))
    assert heard.positions[-1].version == head(changes.database)
    changes.create(Kind.RULE, rule("b"), by=ANN)
    told = changes.mirror.explain({"ip": "203.0.113.9", "path": "/"})
    assert f"block:{block.id}" in str(told), "the mirror has found it in the log"


def test_nor_for_one_that_is_still_to_be_made(changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    changes.create(Kind.RULE, rule("a"), by=ANN)
    started_anew = Changes(changes.database)
    monkeypatch.setattr(mirror.Mirror, "rebuild", lambda *_: pytest.fail("it is being made"))
    block = started_anew.add_block({"user": "7"}, by=ANN).entry
    assert block is not None
    started_anew.lift_block(block.id, by=ANN)
    assert set(bodies(changes.database)) == {(Kind.RULE, "a")}
