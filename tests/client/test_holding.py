"""Who holds for whom, and for how long, with time as a number."""

from __future__ import annotations

import pytest

from headgate.client import RetryReport
from headgate.client.origin import ROUTES_MAX
from tests.client.paper_client import REFUSED, PaperClient


def test_when_one_is_told_to_wait_the_others_hold_too() -> None:
    client = PaperClient()
    client.ask("/a", 429, REFUSED, method="POST")
    assert client.ask("/b") == pytest.approx(2.0)
    assert client.ask("/b") == 0.0


def test_other_servers_and_other_credentials_do_not_hold() -> None:
    client = PaperClient()
    client.ask("/a", 429, {"retry-after": "20"}, method="POST")
    for how in ({"host": "other.test"}, {"headers": {"authorization": "Bearer x"}}, {"headers": {"x-api-key": "x"}}):
        with client.begin(**how) as trip:
            assert client.wait_out(trip) == 0.0


def test_without_pacing_nobody_holds_for_another() -> None:
    client = PaperClient(pace=False)
    client.ask("/a", 429, {"retry-after": "20"}, method="POST")
    assert client.ask("/b") == 0.0


def test_what_may_not_be_waited_out_is_sent_at_once() -> None:
    """The server's refusal is a better answer than one made up by the client."""
    client = PaperClient()
    client.ask("/a", 429, {"retry-after": "3600"}, method="POST")
    assert client.until_handed_over(429, {"retry-after": "3600"}) == RetryReport(1, 0.0, "wait")


def told(name: str, remaining: int, seconds: int, quota: int = 10, window_s: int = 60) -> dict[str, str]:
    return {
        "ratelimit": f'"{name}";r={remaining};t={seconds}',
        "ratelimit-policy": f'"{name}";q={quota};w={window_s}',
    }


@pytest.mark.parametrize(
    "named",
    [
        told("p", 0, 3_000, 10, 3_600),
        {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "3000"},
    ],
    ids=["ietf", "x-ratelimit"],
)
def test_retry_after_goes_before_any_other_time_that_is_named(named: dict[str, str]) -> None:
    """The RateLimit drafts: if both are there, Retry-After MUST take precedence."""
    client = PaperClient()
    with client.begin("/a") as trip:
        client.wait_out(trip)
        assert client.answer(trip, 429, {**REFUSED, **named})
        assert client.wait_out(trip) == pytest.approx(2.0)


def test_after_a_retry_after_that_is_earlier_than_the_reset_there_is_one_more_and_not_all() -> None:
    client = PaperClient()
    spent = {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "20"}
    client.ask("/a", 429, {**REFUSED, **spent}, method="POST")
    assert client.ask("/b", method="POST") == pytest.approx(2.0)
    assert client.begin("/c", method="POST").wait_s(client.now_s) > 0


def test_a_policy_that_is_spent_until_later_does_not_hold_one_that_is_back_sooner() -> None:
    client = PaperClient()
    both = {"ratelimit": '"soon";r=0;t=4, "late";r=0;t=29', "ratelimit-policy": '"soon";q=5;w=10, "late";q=5;w=60'}
    client.ask("/cheap", headers=told("soon", 5, 0, 5, 10))
    client.ask("/dear", 429, both, method="POST")
    assert client.ask("/cheap") == pytest.approx(5.0)


def test_the_latest_word_of_a_server_counts_not_the_longest() -> None:
    """An hour's ban that was lifted must not keep a client from waiting the seconds it is told now."""
    client = PaperClient()
    client.ask("/a", 429, {"retry-after": "3600"}, method="POST")
    client.now_s += 1
    assert client.until_handed_over(429, REFUSED).attempts == 5


def test_of_refusals_that_were_on_their_way_together_the_longest_holds() -> None:
    client = PaperClient()
    flying = [client.begin("/a", "POST") for _ in range(2)]
    for trip in flying:
        client.wait_out(trip)
    for trip, seconds in zip(flying, ("20", "2"), strict=True):
        client.now_s += 0.1
        client.answer(trip, 429, {"retry-after": seconds})
    assert client.ask("/a") == pytest.approx(19.9)


def test_a_request_that_is_let_through_after_a_refusal_of_everything_lifts_it() -> None:
    client = PaperClient()
    client.ask("/login", 429, {"retry-after": "70"}, method="POST")
    client.now_s += 1
    assert client.ask("/items") == 0.0
    client.now_s += 30
    assert client.ask("/items") == 0.0


@pytest.mark.parametrize("answer", [(304, {}), (502, {}), (404, {}), (200, {"age": "3"})], ids=str)
def test_an_error_or_an_answer_of_a_cache_does_not_say_that_its_path_has_no_policies(
    answer: tuple[int, dict[str, str]],
) -> None:
    client = PaperClient()
    client.ask("/a", headers=told("p", 5, 29))
    flying = client.begin("/a")
    client.wait_out(flying)
    client.ask("/a", headers=told("p", 0, 29))
    client.answer(flying, *answer)
    assert client.ask("/a") == pytest.approx(30.0)


@pytest.mark.parametrize("scheme", ['Digest username="u", nc={}', "AWS4-HMAC-SHA256 Credential=AK/{}, Signature=1"])
def test_a_signature_that_is_new_with_every_request_is_no_other_caller(scheme: str) -> None:
    client = PaperClient(origins_max=3)
    for number in range(10):
        client.ask("/a", headers=None, host="other.test")
        with client.begin("/a", headers={"authorization": scheme.format(number)}) as trip:
            client.wait_out(trip)
            client.answer(trip)
    assert len(client.conduct.origins.all()) == 2


def test_nothing_is_sent_while_nothing_is_left() -> None:
    client = PaperClient()
    client.ask("/a", headers=told("p", 0, 9))
    assert client.ask("/a") == pytest.approx(10.0)


def test_the_last_of_a_quota_is_spread_but_not_slower_than_the_limit_itself() -> None:
    client = PaperClient(pace_below=0.5)
    assert client.ask("/a", headers=told("p", 8, 19)) == 0.0
    assert client.ask("/a", headers=told("p", 4, 19)) == 0.0
    assert client.ask("/a", headers=told("p", 3, 15)) == pytest.approx(20 / 5)
    assert client.ask("/a", headers=told("p", 1, 59)) == pytest.approx(16 / 4)
    assert client.ask("/a") == pytest.approx(60 / 10)


def test_a_policy_of_one_path_does_not_slow_down_another() -> None:
    client = PaperClient()
    client.ask("/items/1", headers=told("items", 900, 0, 1_000, 60))
    client.ask("/search", headers=told("search", 0, 29))
    assert client.ask("/items/1", headers=told("items", 899, 0, 1_000, 60)) == 0.0
    assert client.ask("/items/2", headers=told("items", 898, 0, 1_000, 60)) == 0.0
    assert client.ask("/search") == pytest.approx(30.0)


def test_a_path_not_seen_before_is_like_its_neighbours() -> None:
    client = PaperClient()
    client.ask("/users/1", headers=told("users", 0, 29))
    assert client.ask("/users/2") == pytest.approx(30.0)


def test_an_answer_without_policies_says_its_path_has_none() -> None:
    client = PaperClient()
    client.ask("/users/1", headers=told("users", 5, 29))
    client.ask("/users/health")
    client.ask("/users/1", headers=told("users", 0, 29))
    assert client.ask("/users/health") == 0.0


def test_requests_on_their_way_are_taken_off_what_is_left() -> None:
    client = PaperClient(pace_below=0.0)
    client.ask("/a", headers=told("p", 9, 20))
    flying = [client.begin("/a") for _ in range(3)]
    for trip in flying:
        assert client.wait_out(trip) == 0.0
    client.answer(flying.pop(), headers=told("p", 2, 20))
    assert client.begin("/a").wait_s(client.now_s) > 0
    for trip in flying:
        client.answer(trip, headers=told("p", 2, 20))
    assert client.ask("/a", headers=told("p", 1, 20)) == 0.0


def test_those_who_hold_go_one_after_another_at_the_rate_of_the_limit() -> None:
    client = PaperClient(pace_below=0.0, total_wait_max_s=1_000.0, wait_max_s=1_000.0)
    client.ask("/a", headers=told("p", 0, 4))
    began_s = client.now_s
    waiting = [client.begin("/a") for _ in range(4)]
    gone_s: list[float] = []
    while waiting:
        waits_s = [trip.wait_s(client.now_s) for trip in waiting]
        gone_s += [client.now_s - began_s for wait_s in waits_s if wait_s == 0]
        waiting = [trip for trip, wait_s in zip(waiting, waits_s, strict=True) if wait_s > 0]
        client.now_s += 0.25
    assert gone_s == pytest.approx([5.0, 11.0, 17.0, 23.0])


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    client = PaperClient()
    client.ask("/a", headers=told("p", 0, 9))
    allowance = client.begin("/a")._origin.allowances("GET", "/a")[1]
    holding = client.begin("/a")
    with holding:
        assert holding.wait_s(client.now_s) > 0
        assert len(allowance.queue) == 1
    assert allowance.queue == []
    client.now_s += 100
    with client.begin("/a") as flying:
        assert client.wait_out(flying) == 0.0
        assert allowance.in_flight == 1
    assert allowance.in_flight == 0


def test_what_is_remembered_is_bounded() -> None:
    client = PaperClient(origins_max=5)
    for number in range(50):
        client.ask("/", headers=told(f"p{number}", 5, 9), host=f"{number}.test")
    assert len(client.conduct.origins.all()) == 5
    for number in range(ROUTES_MAX * 4):
        client.ask(f"/{number}/" + "x" * 5_000, headers=told(f"p{number}", 5, 9))
    origin = client.begin()._origin
    assert len(origin._routes) == ROUTES_MAX
    assert len(origin._allowances) == 64
    assert max(len(path) for _, path in origin._routes) <= 256
