"""API keys: made, revoked, replaced by new ones. A key's value leaves here once and is kept nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headgate.control.applying import Applying, Intent
from headgate.control.change import ABSENT, Outcome, Wanted
from headgate.control.entry_body import Body
from headgate.control.errors import AlreadyRevoked, Invalid, NoKeySecret
from headgate.control.merge_patch import bounded_patch, merged
from headgate.control.moments import read_length, written
from headgate.control.verbs import present
from headgate.feed import Kind
from headgate.model.new_key import SECRET_BYTES_MIN, hashed, new_id, new_value
from headgate.storage.sql import Transaction, entries

# What somebody may say of a key; the rest is ours.
GIVEN = ("name", "user", "org", "tier", "expires")
LIMITS = ("limit", "algorithm")


@dataclass(frozen=True, slots=True)
class MadeKey:
    """`value` is all that its holder will ever need, so it is shown by nothing but the answer that made it."""

    id: str
    value: str = field(repr=False)
    outcome: Outcome


class KeyVerbs(Applying):
    def create_key(
        self, given: Mapping[str, Any], *, by: str, why: str | None = None, dry_run: bool = False
    ) -> MadeKey:
        """`given` is any of name, user, org, tier, expires; and limit, with algorithm, for limits of its own."""
        secret = self._usable_secret()
        _check_given(given, (*GIVEN, *LIMITS))
        key_id = new_id()
        value = new_value(key_id)
        body: Body = {name: given[name] for name in GIVEN if given.get(name) is not None}
        body |= {"id": key_id, "hash": hashed(secret, value), "created": written(self._now())}
        wanted = [Wanted(Kind.KEY, key_id, body, ABSENT), *_own_limits(key_id, given)]
        return MadeKey(key_id, value, self._run(lambda _: wanted, Intent(by, "create_key", why, dry_run)))

    def patch_key(
        self,
        id: str,
        patch: Mapping[str, Any],
        *,
        by: str,
        why: str | None = None,
        expect: int | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """A merge patch of what may be said of a key; its limits are the override of `api_key:<id>`."""
        _check_given(patch, (*GIVEN, *LIMITS))
        changed = bounded_patch(patch)

        def plan(tx: Transaction) -> Sequence[Wanted]:
            body = _usable(present(tx, Kind.KEY, id, expect).body)
            wanted = [Wanted(Kind.KEY, id, merged(body, {name: changed[name] for name in GIVEN if name in changed}))]
            limits = {name: changed[name] for name in LIMITS if name in changed}
            return wanted + (_patched_limits(tx, id, limits) if limits else [])

        return self._run(plan, Intent(by, "patch", why, dry_run))

    def revoke_key(
        self, id: str, *, by: str, why: str | None = None, expect: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Ends it from now on, for good. Its limits stay as they are; revoking twice changes nothing."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            body = present(tx, Kind.KEY, id, expect).body
            marks = {} if _is_revoked(body) else {"revoked": written(self._now()), "revoked_by": by}
            return [Wanted(Kind.KEY, id, body | marks)]

        return self._run(plan, Intent(by, "revoke_key", why, dry_run))

    def delete_key(
        self, id: str, *, by: str, why: str | None = None, expect: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """Its limits go with it."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            present(tx, Kind.KEY, id, expect)
            own = _limits_id(id)
            limits = [Wanted(Kind.OVERRIDE, own, None)] if entries.get(tx, Kind.OVERRIDE, own) else []
            return [Wanted(Kind.KEY, id, None), *limits]

        return self._run(plan, Intent(by, "delete_key", why, dry_run))

    def rotate_key(
        self,
        id: str,
        *,
        by: str,
        grace: str | None = None,
        why: str | None = None,
        expect: int | None = None,
        dry_run: bool = False,
    ) -> MadeKey:
        """A new key of the same owner, tier and limits. The old one ends after `grace` ("24h"), or at once."""
        secret = self._usable_secret()
        length = _grace(grace)
        new = new_id()
        value = new_value(new)

        def plan(tx: Transaction) -> Sequence[Wanted]:
            now = self._now()
            body = _usable(present(tx, Kind.KEY, id, expect).body)
            kept = {name: body[name] for name in GIVEN if name in body}
            made = kept | {"id": new, "hash": hashed(secret, value), "created": written(now)}
            if length:
                # A key that was to end sooner still does.
                ends = min(written(now + length), body.get("expires", "9"))
                old = body | {"expires": ends}
            else:
                old = body | {"revoked": written(now), "revoked_by": by}
            wanted = [Wanted(Kind.KEY, new, made, ABSENT), Wanted(Kind.KEY, id, old)]
            limits = entries.get(tx, Kind.OVERRIDE, _limits_id(id))
            if limits is not None:
                wanted.append(Wanted(Kind.OVERRIDE, _limits_id(new), limits.body | {"api_key": new}, ABSENT))
            return wanted

        return MadeKey(new, value, self._run(plan, Intent(by, "rotate_key", why, dry_run)))

    def _usable_secret(self) -> bytes:
        if self._key_secret is None or len(self._key_secret) < SECRET_BYTES_MIN:
            raise NoKeySecret
        return self._key_secret


def _check_given(given: Mapping[str, Any], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known and name != "meta"]
    if unknown:
        words = f"cannot be set; expected any of {', '.join(known)}"
        raise Invalid([((name,), f"`{name}` {words}") for name in unknown])


def _grace(text: str | None) -> timedelta | None:
    if text is None or text in ("0", "0s"):
        return None
    try:
        return read_length(text)
    except ValueError as error:
        raise Invalid([(("grace",), str(error))]) from None


def _limits_id(key_id: str) -> str:
    return f"api_key:{key_id}"


def _own_limits(key_id: str, given: Mapping[str, Any]) -> list[Wanted]:
    limits = {name: given[name] for name in LIMITS if given.get(name) is not None}
    return [Wanted(Kind.OVERRIDE, _limits_id(key_id), limits | {"api_key": key_id})] if limits else []


def _patched_limits(tx: Transaction, key_id: str, limits: Mapping[str, Any]) -> list[Wanted]:
    """An override that says nothing any more is none."""
    stored = entries.get(tx, Kind.OVERRIDE, _limits_id(key_id))
    body = merged(stored.body if stored else {"api_key": key_id}, limits)
    says_anything = any(name in body for name in ("limit", "tier", "block"))
    if stored is None and not says_anything:
        return []
    return [Wanted(Kind.OVERRIDE, _limits_id(key_id), body if says_anything else None)]


def _is_revoked(body: Body) -> bool:
    return body.get("revoked") is not None


def _usable(body: Body) -> Body:
    if _is_revoked(body):
        raise AlreadyRevoked(body["id"], body["revoked"])
    return body
