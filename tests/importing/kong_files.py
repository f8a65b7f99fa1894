"""Kong's files, imported and asked."""

from __future__ import annotations

import textwrap
from pathlib import Path

from headgate.importing.kong import read_kong
from tests.importing.deciding import Moved, moved

BOB, EVE = "198.51.100.1", "198.51.100.2"
HEAD = '_format_version: "3.0"\n'


def importing(folder: Path, text: str) -> Moved:
    return moved(read_kong, folder, HEAD + textwrap.dedent(text))


def configured(folder: Path, config: str, kind: str = "rate-limiting") -> Moved:
    return importing(folder, f"plugins:\n- name: {kind}\n  config: {{{config}}}\n")


def own_notes(there: Moved, level: str) -> list[tuple[str, str]]:
    """Without what is said of every import."""
    return [(where, what) for where, what in there.said(level) if where != "theirs.yaml"]
