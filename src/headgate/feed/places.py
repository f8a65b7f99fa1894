"""Telling a rules file from where a control plane's rules come from."""

from __future__ import annotations

import re

SNAPSHOT_SUFFIX = ".hgs"
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def is_feed(text: str) -> bool:
    """Whether rules are to come from a feed; else the text names a rules file."""
    first = text.split(",")[0].strip()
    return SCHEME.match(first) is not None or first.endswith(SNAPSHOT_SUFFIX)
