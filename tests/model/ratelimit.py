"""A slow, plain account of envoyproxy/ratelimit's look-up: its files' own form, walked without an index.

What is counted is counted as Headgate counts it: all descriptors of a call are decided together (SEMANTICS 7.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNITS_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800, "month": 2_592_000}
ALL = 2**32 - 1

Configured = Mapping[str, Any]
Entries = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Found:
    """What a descriptor meets: an item of `descriptors:`, and what is counted by."""

    item: Configured
    counted: tuple[object, ...]

    @property
    def limit(self) -> Configured | None:
        given: Configured | None = self.item.get("rate_limit")
        return given

    @property
    def count(self) -> int:
        return int((self.limit or {}).get("requests_per_unit", 0))

    @property
    def passes(self) -> bool:
        """Without any limit: there is none, or it is unlimited."""
        return self.limit is None or bool(self.limit.get("unlimited"))

    @property
    def is_shadow(self) -> bool:
        return bool(self.item.get("shadow_mode"))


@dataclass(frozen=True)
class Answered:
    """Of one descriptor: its code, and of the limit it met how much that is and what is left."""

    code: str
    limit: int | None = None
    remaining: int = 0


def text_of(item: Configured) -> str:
    return f"{item['key']}_{item['value']}" if item.get("value") else str(item["key"])


def look_up(descriptors: Sequence[Configured], entries: Entries) -> Found | None:
    counted: list[tuple[str, str]] = []
    item: Configured = {"descriptors": descriptors}
    for key, value in entries:
        below = item.get("descriptors") or []
        texts = {text_of(one): one for one in below}
        whole = f"{key}_{value}"
        fitting = [text for text in texts if text.endswith("*") and whole.startswith(text[:-1])]
        item_or_none = texts.get(whole) or (texts[fitting[0]] if fitting else texts.get(key))
        if item_or_none is None:
            return None
        item = item_or_none
        is_shared = whole not in texts and bool(fitting) and bool(item.get("share_threshold"))
        counted.append((key, text_of(item).removeprefix(f"{key}_") if is_shared else value))
    if not entries or (item.get("rate_limit") is None and item.get("descriptors")):
        return None
    return Found(item, tuple(counted))


def met(descriptors: Sequence[Configured], call: Sequence[Entries]) -> list[Found | None]:
    """What applies to each descriptor of a call, without what others of them replace."""
    found = [look_up(descriptors, entries) for entries in call]
    limits = [one.limit for one in found if one is not None and one.limit is not None]
    replaced = {other["name"] for limit in limits for other in limit.get("replaces") or ()}
    is_replaced = [one is not None and (one.limit or {}).get("name") in replaced for one in found]
    return [None if gone else one for one, gone in zip(found, is_replaced, strict=True)]


class Model:
    """One domain, and a counter for everything that was ever met."""

    def __init__(self, descriptors: Sequence[Configured]) -> None:
        self.descriptors = descriptors
        self.used: dict[tuple[object, ...], int] = {}

    def ask(self, call: Sequence[Entries], hits: int, now_s: float) -> tuple[str, list[Answered]]:
        found = met(self.descriptors, call)
        enforced = [one for one in found if one is not None and not one.passes and not one.is_shadow]
        if any(one.count == 0 for one in enforced):
            return "OVER_LIMIT", [self._of_blocked(one) for one in found]
        keys = {self._key(one, now_s): one for one in enforced}
        over = {key for key, one in keys.items() if self.used.get(key, 0) + hits > one.count}
        if not over:
            for key in keys:
                self.used[key] = self.used.get(key, 0) + hits
        return "OVER_LIMIT" if over else "OK", [self._of_decided(one, over, now_s) for one in found]

    def _key(self, found: Found, now_s: float) -> tuple[object, ...]:
        assert found.limit is not None
        unit_s = UNITS_S[found.limit["unit"]]
        return (*found.counted, unit_s, int(now_s // unit_s))

    def _of_blocked(self, found: Found | None) -> Answered:
        if found is None or found.is_shadow or found.passes:
            return self._of_free(found)
        return Answered("OK" if found.count else "OVER_LIMIT")

    def _of_decided(self, found: Found | None, over: set[tuple[object, ...]], now_s: float) -> Answered:
        if found is None or found.is_shadow or found.passes:
            return self._of_free(found)
        key = self._key(found, now_s)
        return Answered("OVER_LIMIT" if key in over else "OK", found.count, found.count - self.used.get(key, 0))

    def _of_free(self, found: Found | None) -> Answered:
        """A shadow limit does not show; one of nothing that never refuses is no limit at all."""
        is_free = found is not None and (found.passes or found.count == 0)
        return Answered("OK", None, ALL if is_free else 0)
