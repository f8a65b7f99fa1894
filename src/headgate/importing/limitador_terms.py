"""What Limitador's conditions and variables say, in both of its languages.

The old one names an entry (`req.method == "GET"`, and long ago `req.method == GET`); the new one is CEL, which looks it
up in a descriptor (`descriptors[0]['req.method'] == 'GET'`). Of CEL only equalities with a text are read, alone or
joined by `&&`: that is what a rule can match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEY = r"""
    descriptors \s* \[ \s* (?P<nth>[0-9]{1,3}) \s* \] \s*
        (?: \. \s* (?P<field>[A-Za-z_][A-Za-z0-9_]*)
          | \[ \s* (?: '(?P<single>[^'\\]*)' | "(?P<double>[^"\\]*)" ) \s* \] )
    | (?P<plain>[A-Za-z_][A-Za-z0-9_.\-]*)
"""
_TEXT = r"""'(?P<t1>[^'\\]*)' | "(?P<t2>[^"\\]*)" """
_BARE = r"(?P<bare>[A-Za-z0-9_.\-]+)"
_FORWARDS = re.compile(rf"\s* (?:{_KEY}) \s* == \s* (?: {_TEXT} | {_BARE} ) \s*", re.VERBOSE)
_BACKWARDS = re.compile(rf"\s* (?: {_TEXT} ) \s* == \s* (?:{_KEY}) \s*", re.VERBOSE)
_ALONE = re.compile(rf"\s* (?:{_KEY}) \s*", re.VERBOSE)
_AND = "&&"
# In CEL these are values or operators, never the name of an entry.
_WORDS = frozenset({"true", "false", "null", "in", "descriptors", "limit"})


@dataclass(frozen=True, slots=True)
class Term:
    """An entry that is looked at: its key, in which descriptor (None: any), and what it must be (None: anything)."""

    key: str
    nth: int | None
    value: str | None = None


def read_condition(text: str) -> list[Term] | None:
    """The equalities that must all hold; None if it says anything else."""
    terms: list[Term] = []
    at = 0
    while True:
        found = _FORWARDS.match(text, at) or _BACKWARDS.match(text, at)
        term = None if found is None else _term(found)
        if found is None or term is None:
            return None
        terms.append(term)
        at = found.end()
        if at == len(text):
            return terms
        if not text.startswith(_AND, at):
            return None
        at += len(_AND)


def read_variable(text: str) -> Term | None:
    found = _ALONE.fullmatch(text)
    return None if found is None else _term(found)


def _term(found: re.Match[str]) -> Term | None:
    parts = found.groupdict()
    plain = parts["plain"]
    key = next((parts[name] for name in ("field", "single", "double", "plain") if parts[name] is not None), "")
    if plain in _WORDS or not key:
        return None
    value = next((parts[name] for name in ("t1", "t2", "bare") if parts.get(name) is not None), None)
    if parts.get("bare") is not None and plain is None:
        # CEL compares with a number or another name here; only the oldest form leaves the quotes out.
        return None
    return Term(key, None if parts["nth"] is None else int(parts["nth"]), value)
