"""The verbs for single entries, one use case each, all of them thin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.control.applying import Applying, Intent
from headgate.control.change import ABSENT, PRESENT, Expect, Outcome, Wanted
from headgate.control.entry_body import EVERY_RULE, Body, id_of
from headgate.control.errors import Invalid, NotThere, Stale
from headgate.control.merge_patch import bounded_patch, merged
from headgate.control.short_form import is_short, long_form
from headgate.feed import Kind
from headgate.storage.sql import Stored, Transaction, entries


class Verbs(Applying):
    def create(
        self, kind: Kind, body: Mapping[str, Any], *, by: str, why: str | None = None, dry_run: bool = False
    ) -> Outcome:
        """A new entry. Raises Exists when there is one of that name. A rule may be given in its short form."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            whole = body
            if kind is Kind.RULE and is_short(body):
                whole = long_form(body, lambda name: entries.get(tx, kind, name) is not None)
            return [Wanted(kind, needed_id(kind, whole), whole, ABSENT)]

        return self._run(plan, Intent(by, "create", why, dry_run))

    def replace(
        self,
        kind: Kind,
        id: str,
        body: Mapping[str, Any],
        *,
        by: str,
        why: str | None = None,
        expect: Expect = None,
        dry_run: bool = False,
    ) -> Outcome:
        """The whole entry, made if it is not there (unless `expect` says otherwise)."""
        return self.apply([Wanted(kind, id, body, expect)], by=by, why=why, verb="replace", dry_run=dry_run)

    def patch(
        self,
        kind: Kind,
        id: str,
        patch: Mapping[str, Any],
        *,
        by: str,
        why: str | None = None,
        expect: int | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """A JSON merge patch (RFC 7396): what it names is replaced, what it sets to null is removed."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            return [Wanted(kind, id, merged(present(tx, kind, id, expect).body, bounded_patch(patch)))]

        return self._run(plan, Intent(by, "patch", why, dry_run))

    def delete(
        self,
        kind: Kind,
        id: str,
        *,
        by: str,
        why: str | None = None,
        expect: int | None = None,
        dry_run: bool = False,
    ) -> Outcome:
        """Raises NotThere when there is none."""
        return self._run(
            lambda tx: [Wanted(kind, present(tx, kind, id, expect).id, None)], Intent(by, "delete", why, dry_run)
        )

    def enable(
        self, name: str, *, by: str, why: str | None = None, expect: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """A rule that was disabled counts again, from where it was."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            body = present(tx, Kind.RULE, name, expect).body
            return [
                Wanted(Kind.RULE, name, {key: body[key] for key in body if key != "enabled"} if _off(body) else body)
            ]

        return self._run(plan, Intent(by, "enable", why, dry_run))

    def disable(
        self, name: str, *, by: str, why: str | None = None, expect: int | None = None, dry_run: bool = False
    ) -> Outcome:
        """As if the rule were absent, but kept."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            return [Wanted(Kind.RULE, name, present(tx, Kind.RULE, name, expect).body | {"enabled": False})]

        return self._run(plan, Intent(by, "disable", why, dry_run))

    def switch(self, id: str, *, by: str, why: str | None = None, dry_run: bool = False) -> Outcome:
        """Turn one rule to shadow, or all with `*`, until `unswitch`: whatever becomes of the rule's text."""

        def plan(tx: Transaction) -> Sequence[Wanted]:
            if id != EVERY_RULE:
                present(tx, Kind.RULE, id)
            return [Wanted(Kind.SWITCH, id, {"id": id})]

        return self._run(plan, Intent(by, "switch", why, dry_run))

    def unswitch(self, id: str, *, by: str, why: str | None = None, dry_run: bool = False) -> Outcome:
        """Enforce again."""
        return self.apply([Wanted(Kind.SWITCH, id, None, PRESENT)], by=by, why=why, verb="unswitch", dry_run=dry_run)


def present(tx: Transaction, kind: Kind, id: str, expect: int | None = None) -> Stored:
    """The entry that is to be changed. Raises NotThere, and Stale when it is not the one that was read."""
    stored = entries.get(tx, kind, id)
    if stored is None:
        raise NotThere(kind, id)
    if expect is not None and stored.version != expect:
        raise Stale(kind, id, expect, stored.version)
    return stored


def needed_id(kind: Kind, body: Mapping[str, Any], place: tuple[str | int, ...] = ()) -> str:
    """What a body calls itself. Raises Invalid where it does not."""
    id = id_of(kind, body)
    if id is not None:
        return id
    if kind is Kind.OVERRIDE:
        raise Invalid([(place, "an override is for exactly one of `user`, `org`, `api_key`")])
    field = "name" if kind in (Kind.RULE, Kind.TIER) else "id"
    raise Invalid([((*place, field), f"a {kind.word} needs a `{field}`: a text")])


def _off(body: Body) -> bool:
    return body.get("enabled") is False
