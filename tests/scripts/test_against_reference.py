"""Whatever is asked in whatever order, the scripts decide and leave behind exactly what the engine's algorithms say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from tests.model.limits import ALGORITHMS, Limit
from tests.scripts.calls import NEVER_US, Ask, Charge, Request, ScriptLimit, Scripts
from tests.scripts.record import COUNT_MAX, HITS, Entry, Record, decode_log
from tests.scripts.reference import Reference, adopt, alive, comparable, fits, held
from tests.scripts.strategies import KEYS, START_US, Call, Check, Cost, DrawnRequest, Passing, Refund, calls

EXAMPLES = 60


class World:
    """The scripts and the reference side by side."""

    def __init__(self, scripts: Scripts) -> None:
        scripts.client.flushdb()
        self.scripts, self.reference = scripts, Reference()
        self.charges: list[Charge] = []
        self.now_us = START_US
        self.ask: Ask | None = None

    def play(self, call: Call) -> None:
        if isinstance(call, Check):
            self._check(call)
        elif isinstance(call, Refund):
            self._refund(call)
        else:
            places = list(dict.fromkeys((ask.key, ask.limit.id) for ask in call.asks))
            by_place = [next(ask for ask in call.asks if (ask.key, ask.limit.id) == place) for place in places]
            assert self.scripts.reset(self.now_us, *by_place) == self.reference.reset(self.now_us, *places)
        self.compare()

    def _pass(self, call: Check | Refund, ask: Ask) -> None:
        self.ask = ask
        self.now_us = call.passing.after(self.now_us, ask, self.reference)

    def _check(self, call: Check) -> None:
        self._pass(call, call.requests[0].asks[0])
        requests = [drawn.request(self.reference, self.now_us) for drawn in call.requests]
        self._peek(requests)
        answer = self.scripts.check(self.now_us, *requests)
        assert answer.now_us == self.now_us
        expected, charges = self.reference.check(self.now_us, *requests)
        assert answer.allowed == expected
        self.charges = [*self.charges, *charges][-7:]

    def _peek(self, requests: Sequence[Request]) -> None:
        """Hits as they are seen, which only the scripts can tell; the values are the records themselves."""
        for request, seen in zip(requests, self.scripts.peek(self.now_us, *requests).hits, strict=True):
            of_hits = [ask for ask in request.asks if ask.limit.kind == HITS]
            for ask, said in zip(of_hits, seen, strict=True):
                entry = adopt(ask.limit, self.reference.entry(ask.key, ask.limit.id), self.now_us)
                now_us = max(self.now_us, entry.at_us) if entry else self.now_us
                living = alive(ask.limit, entry, now_us) if entry else ()
                assert said.used == min(held(living), COUNT_MAX)  # Told in five bytes.
                assert said.oldest_us == (living[0][0] if living else 0)
                self._wait_is_the_least(ask, entry, request.cost, said.wait_us)

    def _wait_is_the_least(self, ask: Ask, entry: Entry | None, cost: int, wait_us: int) -> None:
        if wait_us == NEVER_US:
            assert cost > ask.limit.limit.capacity
            return
        now_us = max(self.now_us, entry.at_us) if entry else self.now_us
        assert fits(ask.limit, entry, cost, now_us + wait_us)
        assert wait_us == 0 or not fits(ask.limit, entry, cost, now_us + wait_us - 1)

    def _refund(self, call: Refund) -> None:
        chosen = [self.charges[-1 - back] for back in dict.fromkeys(call.charges) if back < len(self.charges)]
        if not chosen:
            return
        self._pass(call, chosen[0].ask)
        pairs = [(charge, round(call.amount_share * charge.cost)) for charge in chosen]
        assert self.scripts.refund(self.now_us, *pairs) == self.reference.refund(self.now_us, *pairs)

    def compare(self) -> None:
        for key in KEYS:
            assert self._stored(key) == self._expected(key)

    def _expected(self, key: str) -> Record | None:
        record = self.reference.records.get(key)
        return record and replace(record, entries=tuple(replace(entry, used=_used(entry)) for entry in record.entries))

    def _stored(self, key: str) -> Record | None:
        record = self.scripts.record(key)
        if record is None:
            return None
        entries = []
        for entry in record.entries:
            log = decode_log(self.scripts.value(f"{key}:log:{entry.id}") or b"") if entry.kind == HITS else []
            entries.append(comparable(entry, log))
        return replace(record, entries=tuple(entries))


def _used(entry: Entry) -> int:
    return 0 if entry.groups else entry.used


relaxed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_algorithm_leaves_the_same_records(scripts: Scripts, algorithm: str) -> None:
    @relaxed
    @given(calls((algorithm,)))
    def play(history: list[Call]) -> None:
        world = World(scripts)
        for call in history:
            world.play(call)

    play()


@relaxed
@given(history=calls())
def test_changing_algorithms_leave_the_same_records(scripts: Scripts, history: list[Call]) -> None:
    world = World(scripts)
    for call in history:
        world.play(call)


@relaxed
@given(history=calls(most=10))
def test_a_batch_leaves_what_its_requests_would_one_by_one(scripts: Scripts, history: list[Call]) -> None:
    world, now_us = Reference(), START_US
    values = {}
    for apart in (False, True):
        scripts.client.flushdb()
        world, now_us, said = Reference(), START_US, []
        for call in history:
            if not isinstance(call, Check):
                continue
            now_us = call.passing.after(now_us, call.requests[0].asks[0], world)
            requests = [drawn.request(world, now_us) for drawn in call.requests]
            world.check(now_us, *requests)
            for part in [[request] for request in requests] if apart else [requests]:
                said += scripts.check(now_us, *part).allowed
        values[apart] = (said, [scripts.value(key) for key in KEYS])
    assert values[False] == values[True]


def test_a_log_with_a_cost_beyond_what_a_hit_can_hold_is_still_looked_at(scripts: Scripts) -> None:
    asks = (Ask("hg1:{user:1}", ScriptLimit(1, Limit("sliding_log", 1, 1_000, None)), False),)
    one, most = Cost("one", 0.0), Cost("most", 0.0)
    spends = [(one, False), (most, True), (one, False)]
    requests = tuple(DrawnRequest(asks, cost, forced) for cost, forced in spends)
    World(scripts).play(Check(Passing("at once", 0.0, 0), requests))
