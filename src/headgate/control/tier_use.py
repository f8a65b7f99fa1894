"""Once there are tiers, rules, overrides and keys name only tiers that there are, and none goes while it is named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from headgate.control.entry_body import Mistakes, tiers_named
from headgate.control.errors import InUse, Invalid
from headgate.errors import Path
from headgate.feed import Kind
from headgate.storage.sql import Changed, Transaction, entries

USERS_SHOWN_MAX = 5
_NAMING = (Kind.RULE, Kind.OVERRIDE, Kind.KEY)


def check_tiers(tx: Transaction, changes: Sequence[Changed], places: Mapping[tuple[Kind, str], Path]) -> None:
    """Raises Invalid where a change names a tier that there is not, InUse where one goes that is named."""
    made = {one.id for one in changes if one.kind is Kind.TIER and one.after is not None}
    gone = {one.id for one in changes if one.kind is Kind.TIER and one.after is None}
    if not made and not gone and not any(_names_any(one) for one in changes):
        return
    before = entries.tiers(tx)
    known = (before | made) - gone
    mistakes: Mistakes = []
    for change in changes if known else ():
        for path, tier in _named(change):
            if tier not in known:
                place = places.get((change.kind, change.id), ())
                mistakes.append(((*place, *path), unknown_tier(tier, known)))
    if mistakes:
        raise Invalid(mistakes)
    touched = {(one.kind, one.id) for one in changes}
    for tier in sorted(gone):
        _check_free(tx, tier, changes, touched)
    if made and not before:
        _check_first(tx, known, touched)


def check_all_tiers(tx: Transaction) -> None:
    """Of everything there is, after a change too large to look at one by one."""
    known = entries.tiers(tx)
    unknown = sorted(entries.tiers_named(tx) - known) if known else []
    mistakes: Mistakes = []
    for tier in unknown[:USERS_SHOWN_MAX]:
        users = ", ".join(entries.tier_users(tx, tier, USERS_SHOWN_MAX))
        mistakes.append((("tiers",), f"{unknown_tier(tier, known)} (it is named by {users})"))
    if mistakes:
        raise Invalid(mistakes)


def unknown_tier(tier: str, known: frozenset[str]) -> str:
    return f"`{tier}` is not one of the tiers ({', '.join(sorted(known)[:20])}); make it first, or leave it out"


def _names_any(change: Changed) -> bool:
    return change.kind in _NAMING and change.after is not None and '"tier"' in change.after


def _named(change: Changed) -> list[tuple[Path, str]]:
    if change.after is None or not _names_any(change):
        return []
    named = tiers_named(change.kind, json.loads(change.after))
    if change.kind is Kind.KEY and change.before is not None:
        # Tiers may go while keys name them; that must not keep anybody from revoking such a key.
        named = [one for one in named if one not in tiers_named(change.kind, json.loads(change.before))]
    return named


def _check_free(tx: Transaction, tier: str, changes: Sequence[Changed], touched: set[tuple[Kind, str]]) -> None:
    """Whoever is changed along with it is judged by what becomes of it."""
    users = [_shown(one) for one in changes if any(named == tier for _, named in _named(one))]
    others = entries.tier_users(tx, tier, USERS_SHOWN_MAX + len(touched))
    users += [user for user in others if user not in {f"{kind.word} {id}" for kind, id in touched}]
    if users:
        raise InUse(Kind.TIER, tier, users[:USERS_SHOWN_MAX])


def _check_first(tx: Transaction, known: frozenset[str], touched: set[tuple[Kind, str]]) -> None:
    """The first tiers: what named any tier so far must have named these."""
    skipped = {f"{kind.word} {id}" for kind, id in touched}
    for tier in sorted(entries.tiers_named(tx) - known):
        users = [user for user in entries.tier_users(tx, tier, USERS_SHOWN_MAX + len(touched)) if user not in skipped]
        if users:
            named = ", ".join(users[:USERS_SHOWN_MAX])
            words = f"`{tier}` is named by {named}, and would be unknown; make it a tier in the same change"
            raise Invalid([(("tiers",), words)])


def _shown(change: Changed) -> str:
    return f"{change.kind.word} {change.id}"
