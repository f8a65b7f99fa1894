"""API keys: their values leave once, their hashes stay, and a revoked one never works again."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from headgate.control.changes import Changes
from headgate.control.errors import AlreadyRevoked, Invalid, NoKeySecret
from headgate.feed import Kind
from headgate.storage.sql import Database
from tests.control.conftest import KEY_SECRET
from tests.control.state import bodies, head, names

ANN = "ann"
NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def timed(opened: Database) -> Changes:
    return Changes(opened, key_secret=KEY_SECRET, now=lambda: NOW)


def test_a_key_is_given_out_once_and_kept_as_a_hash(timed: Changes) -> None:
    made = timed.create_key({"user": 42, "tier": "pro", "name": "ci", "limit": "9/minute"}, by=ANN)

    assert made.value.startswith(f"hgk_{made.id}_")
    assert made.value not in repr(made)
    digest = hmac.new(KEY_SECRET, made.value.encode(), hashlib.sha256).hexdigest()
    kept = {"id": made.id, "hash": digest, "user": "42", "tier": "pro", "name": "ci", "created": "2027-01-31T12:00:00Z"}
    assert bodies(timed.database) == {
        (Kind.KEY, made.id): kept,
        (Kind.OVERRIDE, f"api_key:{made.id}"): {"api_key": made.id, "limit": "9/minute"},
    }
    assert made.outcome.position.version == 1
    assert made.outcome.entry is not None
    assert made.outcome.entry.kind is Kind.KEY


def test_no_key_is_made_without_a_secret(opened: Database) -> None:
    for secret in (None, b"short"):
        with pytest.raises(NoKeySecret, match="api_key_secret_file"):
            Changes(opened, key_secret=secret).create_key({"user": 1}, by=ANN)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"hash": "0" * 64}, "hash"),
        ({"user": "a\nb"}, "user"),
        ({"expires": "tomorrow"}, "expires"),
        ({"limit": "often"}, "limit"),
        ({"revoked": "2027-01-31T12:00:00Z"}, "revoked"),
    ],
)
def test_what_is_wrong_with_a_key_is_told_with_its_path(lite: Changes, given: dict[str, str], path: str) -> None:
    with pytest.raises(Invalid) as refused:
        lite.create_key(given, by=ANN)
    assert refused.value.mistakes[0][0] == path
    assert head(lite.database) == 0


def test_a_revoked_key_stays_revoked(timed: Changes) -> None:
    made = timed.create_key({"user": 42}, by=ANN)
    timed.revoke_key(made.id, by="bob")
    body = bodies(timed.database)[Kind.KEY, made.id]
    assert (body["revoked"], body["revoked_by"]) == ("2027-01-31T12:00:00Z", "bob")

    assert not timed.revoke_key(made.id, by="carol").changed
    with pytest.raises(AlreadyRevoked, match="make a new one"):
        timed.rotate_key(made.id, by=ANN)
    with pytest.raises(AlreadyRevoked):
        timed.patch_key(made.id, {"tier": "pro"}, by=ANN)


def test_a_key_can_be_revoked_although_its_tier_is_gone(timed: Changes) -> None:
    for tier in ("free", "pro"):
        timed.create(Kind.TIER, {"name": tier}, by=ANN)
    with pytest.raises(Invalid, match="not one of the tiers"):
        timed.create_key({"user": 1, "tier": "por"}, by=ANN)
    made = timed.create_key({"user": 1, "tier": "pro"}, by=ANN)
    timed.delete(Kind.TIER, "pro", by=ANN)
    assert timed.revoke_key(made.id, by=ANN).changed


def test_a_rotated_key_has_the_same_owner_and_limits_and_the_old_one_ends(timed: Changes) -> None:
    old = timed.create_key({"user": 42, "tier": "pro", "limit": "9/minute"}, by=ANN)
    new = timed.rotate_key(old.id, by=ANN)

    kept = bodies(timed.database)
    assert new.id != old.id
    assert kept[Kind.KEY, new.id]["user"] == "42"
    assert kept[Kind.KEY, new.id]["hash"] != kept[Kind.KEY, old.id]["hash"]
    assert kept[Kind.KEY, old.id]["revoked"] == "2027-01-31T12:00:00Z"
    assert kept[Kind.OVERRIDE, f"api_key:{new.id}"] == {"api_key": new.id, "limit": "9/minute"}
    assert f"api_key:{old.id}" in names(timed.database, Kind.OVERRIDE)
    assert new.outcome.position.version == 2


def test_with_a_grace_the_old_key_works_a_while_longer(timed: Changes) -> None:
    ends_soon = NOW + timedelta(hours=1)
    old = timed.create_key({"user": 1}, by=ANN)
    short = timed.create_key({"user": 1, "expires": ends_soon.isoformat()}, by=ANN)
    timed.rotate_key(old.id, grace="24h", by=ANN)
    timed.rotate_key(short.id, grace="24h", by=ANN)

    kept = bodies(timed.database)
    assert kept[Kind.KEY, old.id]["expires"] == "2027-02-01T12:00:00Z"
    assert kept[Kind.KEY, short.id]["expires"] == "2027-01-31T13:00:00Z"
    with pytest.raises(Invalid) as refused:
        timed.rotate_key(old.id, grace="soon", by=ANN)
    assert refused.value.mistakes[0][0] == "grace"


def test_what_is_said_of_a_key_and_its_limits_can_be_changed_together(timed: Changes) -> None:
    made = timed.create_key({"user": 42}, by=ANN)
    timed.patch_key(made.id, {"name": "laptop", "limit": "3/minute"}, by=ANN)
    own = (Kind.OVERRIDE, f"api_key:{made.id}")
    assert bodies(timed.database)[own] == {"api_key": made.id, "limit": "3/minute"}

    timed.patch_key(made.id, {"name": None, "limit": None}, by=ANN)
    assert list(bodies(timed.database)) == [(Kind.KEY, made.id)]
    assert "name" not in bodies(timed.database)[Kind.KEY, made.id]


def test_a_deleted_key_takes_its_limits_along(timed: Changes) -> None:
    made = timed.create_key({"user": 42, "limit": "9/minute"}, by=ANN)
    timed.delete_key(made.id, by=ANN)
    assert bodies(timed.database) == {}
