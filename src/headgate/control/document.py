"""A whole document at once: rules, tiers and overrides as files hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.control.change import Wanted
from headgate.control.entry_body import Mistakes, as_text
from headgate.control.errors import MISTAKES_MAX, Invalid
from headgate.control.verbs import needed_id
from headgate.feed import Kind

SECTIONS: dict[str, Kind] = {"tiers": Kind.TIER, "rules": Kind.RULE, "overrides": Kind.OVERRIDE}
_IGNORED = ("$schema", "meta")


def wanted_of(document: Mapping[str, Any]) -> list[Wanted]:
    """Everything in it, tiers first. Raises Invalid with all that can be told without a database."""
    mistakes: Mistakes = []
    for name in document:
        if name not in SECTIONS and name not in _IGNORED:
            mistakes.append(((name,), f"`{name}` is not known here; expected {', '.join(SECTIONS)}"))
    wanted = [one for section, kind in SECTIONS.items() for one in _section(document, section, kind, mistakes)]
    _find_twins(wanted, mistakes)
    if mistakes:
        raise Invalid(mistakes)
    return wanted


def named_tiers(document: Mapping[str, Any]) -> frozenset[str]:
    """Tiers given by their names alone, as files do."""
    tiers = document.get("tiers")
    listed = tiers if isinstance(tiers, Sequence) and not isinstance(tiers, str) else ()
    return frozenset(text for tier in listed if isinstance(text := as_text(tier), str))


def sections_of(document: Mapping[str, Any]) -> tuple[Kind, ...]:
    """The kinds it speaks of, be it with an empty list: only these are pruned."""
    return tuple(kind for section, kind in SECTIONS.items() if document.get(section) is not None)


def _section(document: Mapping[str, Any], section: str, kind: Kind, mistakes: Mistakes) -> Iterator[Wanted]:
    items = document.get(section)
    if items is None:
        return
    if not isinstance(items, Sequence) or isinstance(items, str):
        mistakes.append(((section,), "expected a list"))
        return
    for nth, item in enumerate(items):
        place = (section, nth)
        # Files name tiers by their names alone.
        body = {"name": item} if kind is Kind.TIER and isinstance(as_text(item), str) else item
        if len(mistakes) >= MISTAKES_MAX:
            return
        if not isinstance(body, Mapping):
            mistakes.append((place, "expected a mapping"))
            continue
        try:
            yield Wanted(kind, needed_id(kind, body), body, place=place)
        except Invalid:
            mistakes += _unnamed(kind, place)


def _unnamed(kind: Kind, place: tuple[str | int, ...]) -> Mistakes:
    if kind is Kind.OVERRIDE:
        return [(place, "an override is for exactly one of `user`, `org`, `api_key`")]
    return [((*place, "name"), f"a {kind.word} needs a `name`: a text")]


def _find_twins(wanted: Sequence[Wanted], mistakes: Mistakes) -> None:
    first: dict[tuple[Kind, str], Wanted] = {}
    for one in wanted:
        twin = first.setdefault((one.kind, one.id), one)
        if twin is not one:
            section, nth = twin.place
            mistakes.append((one.place, f"the {one.kind.word} `{one.id}` is at {section}[{nth}] already; keep one"))
