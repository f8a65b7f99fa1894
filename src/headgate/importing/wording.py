"""Names and limits, in the words of a rules file."""

from __future__ import annotations

import hashlib
import unicodedata

# What a rule may say; the engine checks it again.
NAME_BYTES_MAX = 128
TEXT_BYTES_MAX = 1_024
COUNT_MAX = 10**12
WINDOW_S_MAX = 366 * 86_400
LIMITS_MAX = 16
DESCRIPTORS_MAX = 32
DEFAULT_PRIORITY = 100
# What no rule's name begins with.
RESERVED = ("override:", "override-block:", "block:", "*")

_UNITS = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day"}
_DIGEST_CHARS = 10


class Names:
    """Gives every rule a name of its own: what it was called there, and a number where two would be the same."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._asked: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        nth = self._asked.get(wanted, 1)
        name = fitting(wanted, f" ({nth})" if nth > 1 else "")
        while name in self._taken:
            nth += 1
            name = fitting(wanted, f" ({nth})")
        self._taken.add(name)
        self._asked[wanted] = nth
        return name


def limit_text(count: int, window_s: int) -> str:
    unit = _UNITS.get(window_s)
    return f"{count} per {window_s}s" if unit is None else f"{count}/{unit}"


def too_much(count: int, window_s: int) -> str | None:
    """Why no rule can have such a limit."""
    if count > COUNT_MAX:
        return f"a limit counts to {COUNT_MAX:,} at most"
    if window_s > WINDOW_S_MAX:
        return f"a window is at most {WINDOW_S_MAX // 86_400} days long"
    return None


def text_problem(text: str) -> str | None:
    """Why no rule can have this text."""
    if not 0 < len(text.encode()) <= TEXT_BYTES_MAX:
        return f"a text in a rule is 1 to {TEXT_BYTES_MAX:,} bytes long"
    if any(unicodedata.category(c) == "Cc" for c in text):
        return "a text in a rule has no control characters"
    return None


def fitting(wanted: str, end: str = "") -> str:
    """Printable, and short enough. What is cut off leaves a digest of the whole, so that the name stays the same from
    one import to the next."""
    name = "".join(c if c.isprintable() else "?" for c in wanted).strip() or "rule"
    if name.startswith(RESERVED):
        name = f"imported/{name}"
    room = NAME_BYTES_MAX - len(end.encode())
    if len(name.encode()) > room:
        digest = "~" + hashlib.sha256(wanted.encode()).hexdigest()[:_DIGEST_CHARS]
        name = name.encode()[: room - len(digest)].decode("utf-8", "ignore") + digest
    return name + end
