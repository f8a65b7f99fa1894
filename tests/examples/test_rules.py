"""The rules files of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.model import find_mistakes
from tests.proxies.example import EXAMPLES


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/rules.yaml")), ids=lambda file: file.parent.name)
def test_an_examples_rules_have_no_mistakes(file: Path) -> None:
    count, mistakes = find_mistakes(str(file))
    assert count > 0
    assert mistakes == []
