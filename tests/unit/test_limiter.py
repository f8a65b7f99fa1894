"""`Limiter`: the constructor, async doors, reservations, the decorator."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path

import pytest

import headgate
from headgate import Limiter, RateLimited, RulesFileError
from headgate.errors import ConfigError, HeadgateError, Mistake
from headgate.testing import FakeClock

RULES = """\
rules:
  - name: login
    match: {endpoint: /login}
    by: user
    limit: 5/minute
"""
BROKEN = RULES.replace("5/minute", "5/minit")


def limiter_with(limit: str = "10/minute") -> tuple[Limiter, FakeClock]:
    clock = FakeClock()
    return Limiter([{"name": "all", "by": "user", "limit": limit}], clock=clock), clock


def remaining(limiter: Limiter) -> int | None:
    return limiter.peek(user="42", cost=0).remaining


def test_rules_come_from_a_path_text_dict_or_list(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    rule = {"name": "login", "match": {"endpoint": "/login"}, "by": "user", "limit": "5/minute"}
    for source in (path, str(path), RULES, {"rules": [rule]}, [rule]):
        limiter = Limiter(source, clock=FakeClock())
        assert limiter.rule_count() == 1
        allowed = [limiter.check(user="42", path="/login").allowed for _ in range(6)]
        assert allowed == [True] * 5 + [False]


def test_a_bulk_file_is_read_by_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "rules.jsonl"
    path.write_text('{"name": "a", "by": "ip", "limit": "5/minute"}\n{"name": "b", "by": "org", "limit": "5/minute"}\n')
    assert Limiter(path).rule_count() == 2


def test_a_mistake_in_a_file_is_located(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(BROKEN)
    with pytest.raises(RulesFileError) as caught:
        Limiter(path)
    assert str(caught.value).startswith(f"{path}:5:12: rules[0].limit: ")
    assert caught.value.mistakes[0].path == ("rules", 0, "limit")
    assert isinstance(caught.value, ConfigError | ValueError)


def test_a_mistake_in_data_is_named_by_its_path() -> None:
    with pytest.raises(RulesFileError, match=r"^rules\[0\]\.limit: "):
        Limiter([{"name": "a", "by": "user", "limit": "often"}])


def test_flaws_of_writing_and_mistakes_of_meaning_are_told_together() -> None:
    with pytest.raises(RulesFileError) as caught:
        Limiter(BROKEN + "    by: org\n")
    assert [mistake.line for mistake in caught.value.mistakes] == [5, 6]


def test_a_broken_reload_changes_nothing_and_a_good_one_keeps_usage(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    limiter = Limiter(path, clock=FakeClock())
    limiter.check(user="42", path="/login")
    version = limiter.rules_version()
    path.write_text(BROKEN)
    with pytest.raises(RulesFileError):
        limiter.reload()
    assert limiter.rules_version() == version
    path.write_text(RULES.replace("5/minute", "7/minute"))
    limiter.reload()
    assert limiter.rules_version() > version
    assert limiter.peek(user="42", path="/login", cost=0).remaining == 6


def test_reload_without_a_file_asks_for_the_rules() -> None:
    limiter = Limiter(RULES)
    with pytest.raises(ConfigError, match="no rules file to read again"):
        limiter.reload()
    limiter.reload([])
    assert limiter.rule_count() == 0


@pytest.mark.parametrize("store", ["mongo://user:secret@host", "redis://user:secret@host:port", "secret"])
def test_a_store_that_cannot_be_is_a_mistake_and_its_password_is_not_told(store: str) -> None:
    with pytest.raises(ConfigError, match="store: ") as caught:
        Limiter(store=store)
    assert "secret" not in str(caught.value)


def test_pickling_and_copying_are_refused_in_words() -> None:
    limiter = Limiter()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds live counters"):
            attempt(limiter)


def test_async_doors_decide_as_the_plain_ones() -> None:
    limiter, _ = limiter_with("1/minute")

    async def both() -> list[bool]:
        first = await limiter.acheck(user="42")
        second = await limiter.acheck(user="42")
        third = await limiter.acheck_limit("k", 1, 60)
        return [first.allowed, second.allowed, third.allowed]

    assert asyncio.run(both()) == [True, False, True]


def test_a_reservation_returns_what_was_not_used() -> None:
    limiter, _ = limiter_with()
    with limiter.reserve(user="42", cost=8) as reservation:
        assert reservation
        assert reservation.allowed
        assert reservation.decision.remaining == 2
        reservation.commit(3)
    assert remaining(limiter) == 7


def test_a_reservation_that_is_never_settled_stays_spent() -> None:
    limiter, _ = limiter_with()
    with limiter.reserve(user="42", cost=8):
        pass
    assert remaining(limiter) == 2


def test_an_escaping_exception_returns_everything() -> None:
    limiter, _ = limiter_with()
    with pytest.raises(KeyError), limiter.reserve(user="42", cost=8):
        raise KeyError
    assert remaining(limiter) == 10


def test_an_exception_after_a_commit_returns_nothing_more() -> None:
    limiter, _ = limiter_with()
    with pytest.raises(KeyError), limiter.reserve(user="42", cost=8) as reservation:
        reservation.commit(4)
        raise KeyError
    assert remaining(limiter) == 6


def test_a_refused_reservation_enters_quietly_and_cannot_be_committed() -> None:
    limiter, _ = limiter_with()
    with limiter.reserve(user="42", cost=11) as reservation:
        assert not reservation
        assert reservation.refund() == 0
        with pytest.raises(RuntimeError, match="was refused and spent nothing"):
            reservation.commit(1)
    assert remaining(limiter) == 10


def test_a_reservation_is_settled_once() -> None:
    limiter, _ = limiter_with()
    committed = limiter.reserve(user="42", cost=5)
    committed.commit(1)
    with pytest.raises(RuntimeError, match="already committed"):
        committed.commit(1)
    with pytest.raises(RuntimeError, match="already committed"):
        committed.refund()
    refunded = limiter.reserve(user="42", cost=5)
    refunded.refund()
    with pytest.raises(RuntimeError, match="already refunded"):
        refunded.commit(1)
    assert remaining(limiter) == 9


def test_reservations_work_in_async_code() -> None:
    limiter, _ = limiter_with()

    async def work() -> None:
        async with limiter.reserve(user="42", cost=8) as reservation:
            reservation.commit(2)
        with pytest.raises(KeyError):
            async with limiter.reserve(user="42", cost=8):
                raise KeyError

    asyncio.run(work())
    assert remaining(limiter) == 8


def test_a_plain_limit_can_be_reserved() -> None:
    limiter = Limiter(clock=FakeClock())
    with limiter.reserve_limit("k", 10, 60, cost=8) as reservation:
        reservation.commit(1)
    assert limiter.peek_limit("k", 10, 60, cost=0).remaining == 9


def test_a_decorated_function_is_refused_past_its_limit() -> None:
    clock = FakeClock()
    limiter = Limiter(clock=clock)
    calls: list[str] = []

    @limiter.limit("2/minute", key=lambda user, **_: user)
    def work(user: str, *, extra: int = 0) -> str:
        """Does it."""
        calls.append(user)
        return user

    assert [work("a"), work("a", extra=1), work("b")] == ["a", "a", "b"]
    with pytest.raises(RateLimited, match="retry in 60") as caught:
        work("a")
    assert calls == ["a", "a", "b"]
    assert not caught.value.decision.allowed
    assert caught.value.retry_after == caught.value.decision.retry_after
    assert isinstance(caught.value, HeadgateError)
    assert (work.__name__, work.__doc__) == ("work", "Does it.")
    clock.advance(60)
    assert work("a") == "a"


def test_a_decorated_coroutine_is_refused_past_its_limit() -> None:
    limiter = Limiter(clock=FakeClock())

    @limiter.limit(1, 60)
    async def work(number: int) -> int:
        return number

    async def twice() -> int:
        with pytest.raises(RateLimited):
            await asyncio.gather(work(1), work(2))
        return 1

    assert asyncio.run(twice()) == 1
    assert asyncio.iscoroutinefunction(work)


def test_decorated_functions_do_not_share_counters() -> None:
    limiter = Limiter(clock=FakeClock())
    first = limiter.limit("1/minute", key="k")(lambda: 1)

    def other() -> int:
        return 2

    second = limiter.limit("1/minute", key="k")(other)
    assert (first(), second()) == (1, 2)


def test_a_bad_limit_stops_where_it_is_written() -> None:
    limiter = Limiter()
    with pytest.raises(ValueError, match="often"):
        limiter.limit("often")(print)


def test_the_package_exports_what_its_documentation_names() -> None:
    for name in headgate.__all__:
        assert hasattr(headgate, name)


def test_errors_survive_pickling() -> None:
    error = RulesFileError([Mistake("f", 1, 2, ("rules", 0), "m")])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.mistakes) == (str(error), error.mistakes)
