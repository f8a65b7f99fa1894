"""Paths that are left alone, written as rules write endpoints: `/healthz`, `/users/{id}/avatar`, `/static/*`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

import headgate._core as _core
from headgate.errors import ConfigError

_PART = re.compile(r"\{[^{}/]+\}")
_UNTIDY = re.compile(r"//|/\.{1,2}(?:/|\Z)|\n")


class Patterns:
    """Compared with paths as rules see them: decoded once, without a trailing slash. Paths with dot segments or doubled
    slashes never match: applications do not agree on what they are."""

    __slots__ = ("_exact", "_regex")

    def __init__(self, patterns: Iterable[str]) -> None:
        exact = set()
        others = []
        if isinstance(patterns, str):
            patterns = [patterns]
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern.startswith("/"):
                raise ConfigError(f"exempt: {pattern!r} is not a path; write it as `/healthz` or `/static/*`")
            if "*" in pattern[:-1] or (pattern.endswith("*") and not pattern.endswith("/*")):
                raise ConfigError(f"exempt: {pattern!r}: `*` may only be the last part, as in `/static/*`")
            if pattern.endswith("/*") or _PART.search(pattern):
                others.append(_as_regex(pattern))
            else:
                exact.add(_core.normalise_path(pattern))
        self._exact = frozenset(exact)
        self._regex = re.compile("|".join(others)) if others else None

    def __bool__(self) -> bool:
        return bool(self._exact) or self._regex is not None

    def match(self, raw_path: str) -> bool:
        """`raw_path` is as it came: not decoded."""
        path = _core.normalise_path(raw_path)
        is_meant = path in self._exact or (self._regex is not None and self._regex.fullmatch(path) is not None)
        return is_meant and not _is_untidy(raw_path)


def _is_untidy(raw_path: str) -> bool:
    """Whether an application may take it for another path than it is compared as. Who writes so is not let off."""
    return "#" in raw_path or _UNTIDY.search(unquote(raw_path)) is not None


def _as_regex(pattern: str) -> str:
    """`/static/*` is everything below `/static`, and not `/static` itself, as in rules."""
    stem, is_open = (pattern[:-2], True) if pattern.endswith("/*") else (pattern, False)
    parts = [_PART.sub("[^/]+", part) if _PART.fullmatch(part) else re.escape(part) for part in stem.split("/")]
    return "/".join(parts) + ("/.+" if is_open else "")
