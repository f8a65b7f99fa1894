"""A Griffe extension: columns of a docstring (`name    what it is`), which Markdown would join, become a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ENTRY = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*)$")


def listed(text: str) -> str:
    """The same text with a list item for each column entry; lines below one, indented as deep, belong to it."""
    lines: list[str] = []
    in_entry = False
    for line in text.split("\n"):
        if entry := _ENTRY.match(line):
            if not in_entry and lines and lines[-1]:
                lines.append("")
            names = ", ".join(f"`{name}`" for name in entry[1].split(", "))
            lines.append(f"- {names}: {entry[2]}")
            in_entry = True
        elif in_entry and line.startswith("  "):
            lines.append(f"    {line.strip()}")
        else:
            in_entry = False
            lines.append(line)
    return "\n".join(lines)


class Columns(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_others: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)
