"""What servers say about waiting, in all the ways they do, and in ways nobody should."""

from __future__ import annotations

import math
from email.utils import formatdate

import pytest
from http_sfv.item import Item
from http_sfv.list import List
from hypothesis import given
from hypothesis import strategies as st

from headgate import Limiter
from headgate.client.answer import COUNT_CEILING, SECONDS_CEILING, Policy, read_answer
from headgate.client.structured import read_list
from headgate.testing import FakeClock
from tests.client.effort import tried

NOW_S = 1_700_000_000.0


def wait_s(**headers: str) -> float | None:
    return read_answer({name.replace("_", "-"): value for name, value in headers.items()}, NOW_S).named_wait_s()


def policies(**headers: str) -> tuple[Policy, ...]:
    return read_answer({name.replace("_", "-"): value for name, value in headers.items()}, NOW_S).policies


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("63", 63.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        (formatdate(NOW_S + 30, usegmt=True), 30.0),
        (formatdate(NOW_S - 30, usegmt=True), 0.0),
        ("Tuesday, 14-Nov-23 22:13:50 GMT", 30.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", SECONDS_CEILING),
        ("9" * 5_000, SECONDS_CEILING),
        ("5, 10", 10.0),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e5", None),
        ("٣", None),
        ("5 seconds", None),
        ("Tue, 99 Foo 2023 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_read(text: str, expected: float | None) -> None:
    assert wait_s(retry_after=text) == expected


def test_dates_are_measured_by_the_servers_own_clock() -> None:
    """A client whose clock is an hour off waits no longer."""
    hour_ahead = formatdate(NOW_S + 3_600, usegmt=True)
    assert wait_s(retry_after=formatdate(NOW_S + 3_610, usegmt=True), date=hour_ahead) == 10.0
    told = {"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(int(NOW_S) + 3_620), "date": hour_ahead}
    assert wait_s(**told) == 20.0


def test_the_fields_of_draft_11_are_read() -> None:
    found = policies(ratelimit='"a";r=3;t=20', ratelimit_policy='"a";q=5;w=60, "b";q=1000;w=3600')
    assert found == (Policy("a", 3, 21.0, 5, 60.0), Policy("b", None, None, 1_000, 3_600.0))


def test_one_policy_for_several_subjects_is_several() -> None:
    found = policies(ratelimit='"a";r=3;t=20;pk=:Zm9v:', ratelimit_policy='"a";q=5;w=60;pk=:Zm9v:')
    assert found == (Policy("a;:Zm9v:", 3, 21.0, 5, 60.0),)


def test_a_policy_declared_for_all_subjects_is_that_of_each() -> None:
    found = policies(ratelimit='"a";r=3;t=20;pk=:Zm9v:', ratelimit_policy='"a";q=5;w=60')
    assert found[0] == Policy("a;:Zm9v:", 3, 21.0, 5, 60.0)


@pytest.mark.parametrize("unit", ['"content-bytes"', '"concurrent-requests"', "bytes"])
def test_what_is_not_counted_in_requests_counts_only_when_nothing_is_left(unit: str) -> None:
    """Five bytes are not five requests."""
    declared = f'"a";q=65535;w=60;qu={unit}'
    some = policies(ratelimit='"a";r=5;t=20', ratelimit_policy=declared)[0]
    assert (some.remaining, some.quota) == (COUNT_CEILING, None)
    none = policies(ratelimit='"a";r=0;t=20', ratelimit_policy=declared)[0]
    assert (none.remaining, none.more_in_s) == (0, 21.0)
    assert policies(ratelimit='"a";r=5;t=20', ratelimit_policy='"a";q=9;w=60;qu="requests"')[0].remaining == 5


def test_what_a_cache_kept_says_nothing_of_what_is_left() -> None:
    """The RateLimit drafts: fields of an answer with an age are not current."""
    spent = {"ratelimit": '"a";r=0;t=20', "x_ratelimit_remaining": "0", "x_ratelimit_reset": "20"}
    assert policies(**spent, age="1") == ()
    assert policies(**spent, age="0") != ()
    assert wait_s(retry_after="7", age="100") == 7.0


def test_a_date_from_a_cache_is_measured_by_the_servers_clock_and_the_age() -> None:
    kept = {"retry_after": formatdate(NOW_S + 130, usegmt=True), "date": formatdate(NOW_S, usegmt=True)}
    assert wait_s(**kept, age="100") == 30.0
    assert wait_s(**kept, age="200") == 0.0


@pytest.mark.parametrize("comment", ["at=@1659578233", 'why=%"f%c3%bc"', "x=?0", "x=1.5", "x=:YQ==:", "x=a/b", "x"])
def test_a_parameter_of_any_type_is_no_mistake(comment: str) -> None:
    """RFC 9651 has more types than these fields need; other parameters are comments."""
    assert policies(ratelimit=f'"a";r=3;{comment};t=20')[0] == Policy("a", 3, 21.0, None, None)


def test_a_second_is_added_to_t_because_it_may_be_rounded_down_but_never_past_the_window() -> None:
    assert policies(ratelimit='"a";r=0;t=60', ratelimit_policy='"a";q=5;w=60')[0].more_in_s == 60.0
    assert policies(ratelimit='"a";r=0;t=0', ratelimit_policy='"a";q=5;w=60')[0].more_in_s == 1.0


def test_older_drafts_are_read() -> None:
    draft_7 = policies(ratelimit="limit=100, remaining=50, reset=5", ratelimit_policy="100;w=60")
    assert draft_7 == (Policy("limit=100", 50, 5.0, 100, None),)
    draft_6 = {"ratelimit_limit": "10, 10;w=1, 50;w=60", "ratelimit_remaining": "9", "ratelimit_reset": "1"}
    assert policies(**draft_6) == (Policy("limit=10", 9, 1.0, 10, None),)


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("60", 60.0),
        (str(int(NOW_S) + 60), 60.0),
        (str(int(NOW_S) - 60), 0.0),
        (f"{NOW_S + 0.5:.3f}", 0.5),
        (str(int(NOW_S * 1_000) + 1_500), 1.5),
        (formatdate(NOW_S + 60, usegmt=True), 60.0),
        ("86400", 86_400.0),
        ("never", None),
        ("-1", None),
    ],
)
@pytest.mark.parametrize("prefix", ["x-ratelimit-", "x-rate-limit-"])
def test_a_reset_may_be_seconds_from_now_or_since_1970(reset: str, expected: float | None, prefix: str) -> None:
    headers = {f"{prefix}limit": "5", f"{prefix}remaining": "0", f"{prefix}reset": reset}
    assert read_answer(headers, NOW_S).named_wait_s() == expected


def test_the_ietf_fields_are_believed_before_older_ones_and_retry_after_before_all() -> None:
    headers = {"ratelimit": '"a";r=0;t=3', "x_ratelimit_remaining": "0", "x_ratelimit_reset": "50"}
    assert wait_s(**headers) == 4.0
    assert wait_s(**headers, retry_after="7") == 7.0
    assert wait_s(**headers, retry_after="soon") == 4.0


@pytest.mark.parametrize("field", ['"a;r=0', '"a";r=0;;', "a b", ",", '"a";r=0,', '"é";r=0', "=", '"a" ; r=0'])
def test_a_broken_field_counts_as_absent(field: str) -> None:
    assert policies(ratelimit=field) == ()


@pytest.mark.parametrize("draft", [10, 11])
@pytest.mark.parametrize("families", [["ietf"], ["x-ratelimit"], ["ietf", "x-ratelimit"], []])
@pytest.mark.parametrize("limit", ["5/minute", "1/second burst 3", "7/10s;20/hour"])
def test_our_own_refusals_are_understood_in_every_form(draft: int, families: list[str], limit: str) -> None:
    clock = FakeClock()
    limiter = Limiter(clock=clock)
    for _ in range(30):
        decision = limiter.check_limit("k", limit)
        headers = {name.lower(): value for name, value in decision.headers(families=families, draft=draft).items()}
        answer = read_answer(headers, clock.now())
        if not decision:
            assert decision.retry_after is not None
            wait = answer.named_wait_s()
            assert wait is not None
            assert wait >= decision.retry_after
        for policy in answer.policies:
            assert policy.remaining in (None, decision.remaining)


# --- whatever is sent, nothing is raised


_texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet='0123456789,;="rtqwpk:.-? %', max_size=60),
    st.integers(min_value=-(10**30), max_value=10**30).map(str),
    st.floats().map(str),
    st.datetimes().map(lambda date: date.strftime("%a, %d %b %Y %H:%M:%S GMT")),
)
_fields = st.sampled_from(
    [
        "retry-after",
        "date",
        "age",
        "ratelimit",
        "ratelimit-policy",
        *(f"{prefix}{name}" for prefix in ("", "x-") for name in ("ratelimit-limit", "ratelimit-remaining")),
        "ratelimit-reset",
        "x-ratelimit-reset",
        "x-ratelimit-retry-after",
    ]
)


@tried(200)
@given(st.dictionaries(_fields, _texts), st.floats(min_value=0, max_value=1e11))
def test_no_headers_raise_and_no_time_is_negative_or_endless(headers: dict[str, str], now_s: float) -> None:
    answer = read_answer(headers, now_s)
    wait = answer.named_wait_s()
    assert wait is None or 0 <= wait <= SECONDS_CEILING + 1
    for policy in answer.policies:
        assert policy.remaining is None or policy.remaining >= 0
        assert policy.quota is None or policy.quota > 0
        assert policy.window_s is None or policy.window_s > 0
        assert policy.more_in_s is None or math.isfinite(policy.more_in_s)


_parameters = st.dictionaries(
    st.from_regex(r"[a-z*][a-z0-9_.*-]{0,5}", fullmatch=True),
    st.one_of(st.integers(-(10**15) + 1, 10**15 - 1), st.booleans(), st.binary(max_size=9)),
    max_size=4,
)
_members = st.tuples(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=12), _parameters)


@tried(200)
@given(st.lists(_members, min_size=1, max_size=6))
def test_what_another_library_writes_is_read(members: list[tuple[str, dict[str, int | bool | bytes]]]) -> None:
    field = List()
    for name, parameters in members:
        item = Item(name)
        for key, value in parameters.items():
            item.params[key] = value
        field.append(item)
    found = read_list(str(field))
    assert [name for name, _ in found] == [name for name, _ in members]
    for (_, read), (_, written) in zip(found, members, strict=True):
        assert set(read) == set(written)
        for key, value in written.items():
            if type(value) is int:
                assert int(read[key]) == value


@tried(200)
@given(st.text(alphabet='"\\;:,=? \tabr019.-*é', max_size=40))
def test_what_another_library_refuses_is_refused(text: str) -> None:
    try:
        field = List()
        field.parse(text.encode())
    except (ValueError, UnicodeEncodeError):
        assert read_list(text) == []
