"""Whatever is sent as an entry is taken or refused with paths; nothing else ever comes of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.control.changes import Changes
from headgate.control.entry_body import clean, id_of, tiers_named
from headgate.control.errors import ChangeError, Invalid
from headgate.control.merge_patch import merged
from headgate.control.moments import read_length, read_time
from headgate.control.short_form import free_name, long_form
from headgate.feed import Kind
from headgate.storage.sql import Database, canonical
from tests.control.conftest import KEY_SECRET
from tests.control.state import rule

FIELDS = [
    "name", "match", "by", "limit", "algorithm", "action", "priority", "enabled", "group", "counter", "until",
    "response", "description", "user", "org", "api_key", "tier", "block", "ip", "id", "hash", "expires", "why", "meta",
    "endpoint", "window", "for", "descriptors", "reason", "message", "status", "label", "x",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["5/minute", "user", "ip", "10.0.0.0/8", "/a/{b}", "1h", "2027-01-31T12:00:00Z", "block", "a\0b", "\ud800"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changes]:
    path: Path = tmp_path_factory.mktemp("bodies") / "x.db"
    database = Database(f"sqlite:///{path}")
    database.migrate()
    yield Changes(database, key_secret=KEY_SECRET)
    database.close()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=BODIES, kind=st.sampled_from([Kind.RULE, Kind.OVERRIDE, Kind.TIER]), dry_run=st.booleans())
def test_any_body_is_taken_or_refused(shared: Changes, body: dict[str, Any], kind: Kind, dry_run: bool) -> None:
    ids = {Kind.RULE: "r", Kind.OVERRIDE: "user:1", Kind.TIER: "t"}
    for work in (
        lambda: shared.create(kind, body, by="w", dry_run=dry_run),
        lambda: shared.replace(kind, ids[kind], body, by="w", dry_run=dry_run),
        lambda: shared.patch(kind, ids[kind], body, by="w", dry_run=dry_run),
        lambda: shared.add_block(body, by="w", dry_run=dry_run),
        lambda: shared.create_key(body, by="w", dry_run=dry_run),
        lambda: shared.apply_document({"rules": [body], "overrides": [body], "tiers": [body]}, by="w", dry_run=dry_run),
    ):
        with contextlib.suppress(ChangeError):
            work()


@settings(max_examples=150, deadline=None)
@given(body=BODIES, kind=st.sampled_from(list(Kind)))
def test_a_clean_body_is_clean_when_it_is_cleaned_again(body: dict[str, Any], kind: Kind) -> None:
    first: list[Any] = []
    made = clean(kind, body, first)
    if not first:
        again: list[Any] = []
        assert canonical(clean(kind, json.loads(canonical(made)), again)) == canonical(made)
        assert not again
        id_of(kind, made)
        tiers_named(kind, made)


def test_numbers_that_are_ids_are_texts_and_other_numbers_are_not() -> None:
    body = rule(7, by=[1, 2], priority=3, match={"user": [1, "2"], "descriptors": {"model": 4}}, counter=9)  # type: ignore[arg-type]
    assert clean(Kind.RULE, body, []) == rule(
        "7", by=["1", "2"], priority=3, match={"user": ["1", "2"], "descriptors": {"model": "4"}}, counter="9"
    )


@pytest.mark.parametrize(
    ("short", "limit"),
    [
        ({"limit": 10, "window": "60s"}, "10/60s"),
        ({"limit": "10", "window": 60}, "10/60s"),
        ({"limit": 10, "window": "5 minutes"}, "10/5 minutes"),
        ({"limit": "10/minute"}, "10/minute"),
        ({"limit": 10, "window": "1h", "burst": 20}, "10/1h burst 20"),
    ],
)
def test_the_short_forms_limit_is_what_people_mean(short: dict[str, Any], limit: str) -> None:
    made = long_form({"endpoint": "/x"} | short, lambda _: False)
    assert made == {"name": "x", "match": {"endpoint": "/x"}, "by": "user", "limit": limit}


@pytest.mark.parametrize(
    ("short", "paths"),
    [
        ({"window": "60s"}, ["endpoint", "limit"]),
        ({"endpoint": "/x", "limit": 10}, ["window"]),
        ({"endpoint": "/x", "limit": 1.5, "window": "60s"}, ["limit"]),
        ({"endpoint": "/x", "limit": 10, "window": "60s", "match": {}}, ["match"]),
    ],
)
def test_what_is_wrong_with_a_short_form_is_told(short: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        long_form(short, lambda _: False)
    assert [path for path, _ in refused.value.mistakes] == paths


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        ("/api/v1/payment", "api-v1-payment"),
        ("/users/{id}/*", "users-id-all"),
        ("/", "root"),
        ("/ü/ö", "root"),
        ("/" + "a" * 200, "a" * 123),
    ],
)
def test_names_are_made_from_endpoints(endpoint: str, name: str) -> None:
    assert free_name(endpoint, lambda _: False) == name
    assert free_name(endpoint, lambda taken: taken == name) == f"{name}-2"


@given(target=VALUES, patch=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
def test_a_merge_patch_does_what_it_says_and_no_more(target: Any, patch: dict[str, Any]) -> None:
    before = repr(target)
    result = merged(target, patch)
    kept = target if isinstance(target, dict) else {}
    assert all(result[name] == kept[name] or result[name] is kept[name] for name in kept if name not in patch)
    assert all(name not in result for name, value in patch.items() if value is None)
    assert repr(target) == before


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("2027-01-31T12:00:00Z", "2027-01-31T12:00:00Z"),
        ("2027-01-31t14:00:00.123456789+02:00", "2027-01-31T12:00:00Z"),
        ("2027-01-31 12:00:00z", "2027-01-31T12:00:00Z"),
    ],
)
def test_times_are_kept_in_one_form(text: str, kept: str) -> None:
    assert read_time(text) == kept


@pytest.mark.parametrize(
    "text",
    ["2027-01-31", "2027-02-30T12:00:00Z", "0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:59", 7, None,
     "٢٠٢٧-01-31T12:00:00Z", "2027-01-31T12:00:00"],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="expected a time"):
        read_time(text)


@pytest.mark.parametrize("text", ["0s", "1", "-1h", "1.5h", "", None, 60, "9" * 30 + "d", "1h30m"])
def test_what_is_no_length_of_time_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="expected a length of time"):
        read_length(text)
