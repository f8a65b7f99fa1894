"""Examples as they stand in the repository, with their addresses and paths put in place of the ones written there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
# As the examples have it; the figure of their READMEs.
TIMEOUT_S = 0.25
TIMEOUT_TEXT = re.compile(r"\b(?:250ms|0\.25s)\b")


def adapted(text: str, places: Mapping[str, str]) -> str:
    """Every place must be there: an example that changed is noticed."""
    for written in places:
        assert written in text, f"the example does not have {written}"
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)


def patient(text: str) -> str:
    """For tests that are not about time: a busy machine must not open a door that only a hung node may open."""
    changed, count = TIMEOUT_TEXT.subn("30s", text)
    assert count, "the example has no time-out"
    return changed


def other_choice(text: str, live: str) -> str:
    """A choice is a line and, below it, its alternative behind a `#`: the other of the two is taken."""
    lines = text.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.strip().startswith(live)]
    alternative = re.fullmatch(r"(\s*)# (.*)", lines[at + 1])
    assert alternative is not None, f"no alternative below {lines[at]}"
    lines[at : at + 2] = [alternative[1] + alternative[2]]
    return "\n".join(lines) + "\n"
