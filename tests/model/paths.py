"""Paths and endpoint patterns, as SEMANTICS 1.1 and 1.4 mean them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_KEPT_ESCAPED = frozenset("%?#") | {chr(code) for code in (*range(0x20), 0x7F)}


def normalise(path: str) -> str:
    """The one spelling of a path. Escapes are decoded once; what would mean something else when read again
    stays escaped, so that normalising twice changes nothing."""
    path = re.split(r"[?#]", path, maxsplit=1)[0]
    pieces, at = [], 0
    for run in _ESCAPES.finditer(path):
        pieces.append(_escaped(path[at : run.start()]))
        pieces.append(_escaped(bytes.fromhex(run.group().replace("%", "")).decode("utf-8", "surrogateescape")))
        at = run.end()
    pieces.append(_escaped(path[at:]))
    normal = _resolved("".join(pieces))
    # A route that ends with `$`, as Starlette's do, is met before a newline too.
    while normal.endswith("%0A"):
        normal = _resolved(normal.removesuffix("%0A"))
    return normal


def _resolved(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            kept[-1:] = []
        elif segment not in ("", "."):
            kept.append(segment)
    return "/" + "/".join(kept)


def _escaped(text: str) -> str:
    def one(char: str) -> str:
        if "\udc80" <= char <= "\udcff":  # a byte that is no UTF-8
            return f"%{ord(char) - 0xDC00:02X}"
        return f"%{ord(char):02X}" if char in _KEPT_ESCAPED else char

    return "".join(map(one, text))


@dataclass(frozen=True)
class Pattern:
    """`/api/v1/login`, `/users/{id}`, `/static/*`."""

    text: str

    @property
    def segments(self) -> list[str]:
        return [segment for segment in self.text.split("/") if segment]

    @property
    def is_prefix(self) -> bool:
        return self.text.endswith("/*")

    def matches(self, path: str) -> bool:
        """`/a/*` is for all that lies below `/a`; `/*` for everything, `/` included."""
        wanted, given = self.segments, [segment for segment in path.split("/") if segment]
        if self.is_prefix:
            wanted = wanted[:-1]
            if wanted and len(given) <= len(wanted):
                return False
        elif len(given) != len(wanted):
            return False
        return all(_is_parameter(want) or want == got for want, got in zip(wanted, given, strict=False))

    @property
    def specificity(self) -> tuple[int, int]:
        """Exact beats parameters, parameters beat a trailing `*`; then the longer literal part."""
        literal = [s for s in self.segments if not _is_parameter(s) and s != "*"]
        kind = 1 if self.is_prefix else 3 if len(literal) == len(self.segments) else 2
        return kind, sum(len(segment.encode()) + 1 for segment in literal)


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{") and segment.endswith("}")
