"""The scripts decide, write and refund as every vector says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model.limits import Limit
from tests.scripts.calls import Ask, Charge, Request, ScriptLimit, Scripts
from tests.scripts.record import HITS, decode_log
from tests.scripts.stored import Stored
from tests.vectors import make
from tests.vectors.format import Expect, Step, Vector, first_limit, limit_from

VECTORS: list[Vector] = [
    vector
    for path in sorted(Path(make.__file__).parent.glob("*.json"))
    for vector in json.loads(path.read_text(encoding="utf-8"))
]
KEY = "hg1:{user:1}"


class Player:
    """Plays one vector; figures are read off the record, which the scripts only write."""

    def __init__(self, scripts: Scripts) -> None:
        self.scripts = scripts
        self.charges: list[Charge | None] = []

    def play(self, step: Step, limit: Limit) -> Expect:
        ask = Ask(KEY, ScriptLimit(7, limit))
        if step["op"] in ("refund", "commit"):
            self.charges.append(None)
            return {"returned": self._settle(step, ask)}
        peeks, cost, now_us = step["op"] == "peek", step["cost"], step["at_us"]
        before = self._stored(ask)
        wait_us = before.wait_us(cost, now_us)
        answer = self.scripts.check(now_us, Request((ask,), cost), verb=step["op"])
        if answer.hits[0]:
            seen = answer.hits[0][0]
            assert seen.used == before.used(now_us)
            assert seen.wait_us == (2**53 if wait_us is None else wait_us)
        charged = self._charge(ask, cost, now_us) if answer.allowed[0] and cost and not peeks else None
        self.charges.append(charged)
        allowed = wait_us == 0 if peeks else answer.allowed[0]
        if peeks:
            # What a peek reports is what the check would have left.
            snapshot = [(key, self.scripts.client.dump(key)) for key in list(self.scripts.client.scan_iter())]
            self.scripts.check(now_us, Request((ask,), cost))
            after = self._stored(ask)
            self.scripts.client.flushdb()
            for key, dump in snapshot:
                self.scripts.client.restore(key, 0, dump or b"")
        else:
            after = self._stored(ask)
        return {
            "allowed": allowed,
            "remaining": after.remaining(now_us),
            "retry_after_us": wait_us,
            "reset_after_us": after.reset_after_us(now_us),
        }

    def _stored(self, ask: Ask) -> Stored:
        record = self.scripts.record(KEY)
        entry = record.entry(ask.limit.id) if record else None
        hits: list[tuple[int, int]] = []
        if entry is not None and entry.kind == HITS:
            assert ask.log_key is not None
            log = decode_log(self.scripts.value(ask.log_key) or b"")
            assert len(log) == entry.hits
            hits = log[entry.head :]
            assert entry.used == sum(cost for _, cost in hits)
        return Stored(ask.limit, entry, hits)

    def _charge(self, ask: Ask, cost: int, now_us: int) -> Charge:
        record = self.scripts.record(KEY)
        entry = record.entry(ask.limit.id) if record else None
        assert entry is not None
        return Charge(ask, now_us, cost, entry.level, entry.refunds)

    def _settle(self, step: Step, ask: Ask) -> int:
        charge = self.charges[step["of"]]
        self.charges[step["of"]] = None
        if charge is None:
            return 0
        charge = Charge(ask, charge.at_us, charge.cost, charge.used_after, charge.refunds)
        actual = step.get("actual")
        if actual is not None and actual > charge.cost:
            self.scripts.check(step["at_us"], Request((ask,), actual - charge.cost, forced=True))
            return 0
        amount = charge.cost - actual if actual is not None else step.get("amount", charge.cost)
        return self.scripts.refund(step["at_us"], (charge, amount))[0]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_scripts_answer_as_the_vector_says(scripts: Scripts, vector: Vector) -> None:
    limit, player = first_limit(vector), Player(scripts)
    for number, step in enumerate(vector["steps"]):
        limit = limit_from(step, limit)
        assert player.play(step, limit) == step.get("expect"), f"step {number}: {step}"
