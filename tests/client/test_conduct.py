"""What a client decides, with time as a number: no sleeping, no sending."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.client import RetryReport
from tests.client.effort import tried
from tests.client.paper_client import REFUSED, PaperClient


def said(report: RetryReport) -> tuple[int, float, str | None]:
    return report.attempts, round(report.waited_s, 6), report.gave_up


def test_an_answer_that_is_no_refusal_is_handed_over() -> None:
    for status in (200, 301, 404, 500, 503):
        assert PaperClient().until_handed_over(status) == RetryReport(1, 0.0, None)


def test_a_refused_request_waits_as_long_as_it_is_told() -> None:
    client = PaperClient()
    with client.begin() as trip:
        assert client.wait_out(trip) == 0
        assert client.answer(trip, 429, REFUSED)
        assert client.wait_out(trip) == pytest.approx(2.0)
        assert not client.answer(trip)
        assert said(trip.report()) == (2, 2.0, None)


def test_a_429_without_a_time_waits_5_seconds_and_a_503_without_one_is_handed_over() -> None:
    """SEMANTICS 6.2."""
    assert PaperClient(attempts_max=2).until_handed_over(429).waited_s == pytest.approx(5.0)
    assert PaperClient().until_handed_over(503) == RetryReport(1, 0.0, None)
    assert PaperClient(attempts_max=2).until_handed_over(503, REFUSED).waited_s == pytest.approx(2.0)


def test_jitter_only_adds() -> None:
    waits_s = [
        PaperClient(attempts_max=2, draw=draw).until_handed_over(429, REFUSED).waited_s for draw in (0.0, 0.5, 1.0)
    ]
    assert waits_s == pytest.approx([2.0, 2.1, 2.2])


def test_a_server_that_says_at_once_again_and_again_is_asked_ever_more_slowly() -> None:
    report = PaperClient().until_handed_over(429, {"retry-after": "0"})
    assert said(report) == (5, 1.5, "attempts")


def test_a_wait_past_the_maximum_is_handed_over_at_once() -> None:
    assert PaperClient(wait_max_s=1.9).until_handed_over(429, REFUSED) == RetryReport(1, 0.0, "wait")
    report = PaperClient(total_wait_max_s=5.0).until_handed_over(429, REFUSED)
    assert said(report) == (3, 4.0, "wait")


def test_only_what_may_be_repeated_is_repeated() -> None:
    for method in ("POST", "PATCH", "BREW"):
        assert PaperClient().until_handed_over(429, REFUSED, method=method) == RetryReport(1, 0.0, "method")
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "QUERY", "TRACE"):
        assert PaperClient().until_handed_over(429, REFUSED, method=method).attempts == 5
    assert PaperClient(methods={"POST"}).until_handed_over(429, REFUSED, method="POST").attempts == 5
    keyed = {"idempotency-key": "1"}
    client = PaperClient()
    with client.begin(method="POST", headers=keyed) as trip:
        client.wait_out(trip)
        assert client.answer(trip, 429, REFUSED)


def test_a_body_that_cannot_be_sent_twice_is_sent_once() -> None:
    report = PaperClient().until_handed_over(429, REFUSED, method="PUT", can_replay=False)
    assert report == RetryReport(1, 0.0, "body")


def test_the_budget_is_shared_and_bounds_retries() -> None:
    client = PaperClient(budget_max=3, budget_part=0.0, budget_per_s=0.0)
    reports = [client.until_handed_over(429, {"retry-after": "0"}) for _ in range(3)]
    assert [report.attempts for report in reports] == [4, 1, 1]
    assert {report.gave_up for report in reports} == {"budget"}


def test_requests_and_time_earn_retries() -> None:
    client = PaperClient(budget_max=10, budget_part=0.1, budget_per_s=1.0, pace=False)
    for _ in range(5):
        client.until_handed_over(429, {"retry-after": "0"})
    at_s = client.now_s
    retries = sum(client.until_handed_over(429, {"retry-after": "0"}).attempts - 1 for _ in range(100))
    assert retries <= 100 * 0.1 + (client.now_s - at_s) + 1
    client.now_s += 1_000
    retries = 0
    for _ in range(5):
        retries += client.until_handed_over(429, {"retry-after": "0"}).attempts - 1
    assert retries >= 10


def test_jitter_does_not_push_a_wait_past_the_maximum() -> None:
    report = PaperClient(draw=1.0, wait_max_s=60.0).until_handed_over(429, {"retry-after": "58"})
    assert said(report) == (3, 120.0, "wait")


def test_a_sleep_that_does_not_take_time_ends_all_the_same() -> None:
    """A test that replaces `sleep` and forgets the clock gets an answer, not a hang."""
    client = PaperClient()
    with client.begin() as trip:
        assert trip.wait_s(client.now_s) == 0.0
        assert client.answer(trip, 429, REFUSED)
        waits_s = list(iter(lambda: trip.wait_s(client.now_s), 0.0))
    assert sum(waits_s) <= client.conduct.options.total_wait_max_s + 0.01


_headers = st.dictionaries(
    st.sampled_from(["retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-remaining", "x-ratelimit-reset"]),
    st.one_of(
        st.text(max_size=30),
        st.integers(-10, 10**12).map(str),
        st.builds('"{}";r={};t={}'.format, st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 100)),
        st.builds('"{}";q={};w={}'.format, st.sampled_from("ab"), st.integers(0, 20), st.integers(0, 100)),
    ),
)


@tried(200)
@given(
    st.lists(st.tuples(st.sampled_from([200, 429, 503]), _headers), max_size=30),
    st.floats(0, 1),
    st.floats(0, 100),
    st.floats(0, 100),
    st.booleans(),
)
def test_no_wait_is_negative_or_past_its_maximum_whatever_is_answered(
    answers: list[tuple[int, dict[str, str]]], draw: float, wait_max_s: float, total_max_s: float, pace: bool
) -> None:
    client = PaperClient(draw=draw, wait_max_s=wait_max_s, total_wait_max_s=total_max_s, pace=pace)
    client.conduct.draw = lambda: draw
    while answers:
        with client.begin() as trip:
            repeats = True
            while repeats and answers:
                before_s = trip.report().waited_s
                while (wait_s := trip.wait_s(client.now_s)) > 0:
                    assert wait_s <= wait_max_s + 0.001
                    client.now_s += wait_s
                assert trip.report().waited_s >= before_s
                status, headers = answers.pop()
                repeats = client.answer(trip, status, headers)
            report = trip.report()
            assert report.waited_s <= total_max_s + 0.01
            assert report.attempts <= 5
