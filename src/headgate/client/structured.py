"""As much of structured fields (RFC 9651) as rate limit headers need: lists of items with parameters."""

from __future__ import annotations

import re

FIELD_CHARS_MAX = 8_192
MEMBERS_MAX = 64

_ITEM = (
    r'"(?:[ !#-\[\]-~]|\\["\\])*"'  # string
    r"|[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*"  # token
    r"|-?[0-9]{1,12}\.[0-9]{1,3}|-?[0-9]{1,15}"  # decimal, integer
    r"|:[A-Za-z0-9+/=]*:"  # bytes
    r"|\?[01]"  # boolean
    r"|@-?[0-9]{1,15}"  # date
    r'|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"'  # text that is not ASCII
)
_BARE_ITEM = re.compile(_ITEM)
_PARAMETER = re.compile(rf"; *([a-z*][a-z0-9_.*-]*)(?:=({_ITEM}))?")
_COMMA = re.compile(r"[ \t]*,[ \t]*")
_ESCAPED = re.compile(r"\\(.)")

Member = tuple[str, dict[str, str]]


def read_list(text: str) -> list[Member]:
    """Each item as text, with its parameters. A field with a mistake counts as absent, as the standard asks."""
    text = text.strip(" ")
    if not text or len(text) > FIELD_CHARS_MAX:
        return []
    members: list[Member] = []
    at = 0
    while len(members) < MEMBERS_MAX:
        item = _BARE_ITEM.match(text, at)
        if item is None:
            return []
        at = item.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(text, at):
            parameters[parameter[1]] = _unquoted(parameter[2] or "?1")
            at = parameter.end()
        members.append((_unquoted(item[0]), parameters))
        if at == len(text):
            return members
        comma = _COMMA.match(text, at)
        if comma is None:
            return []
        at = comma.end()
    return []


def _unquoted(item: str) -> str:
    return _ESCAPED.sub(r"\1", item[1:-1]) if item.startswith('"') else item
