"""The documents that the tests look at, each read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.markdown import Example, Page

ROOT = Path(__file__).parent.parent.parent
README = Page(ROOT / "README.md")
# By their path without the ending: `rules`, `reference/headgate`.
DOCS = {
    path.relative_to(ROOT / "docs").with_suffix("").as_posix(): Page(path) for path in sorted(ROOT.glob("docs/**/*.md"))
}
# docs/benchmarks.md is made by the benchmark; only that links to it lead somewhere is looked at.
WRITTEN = [README, *(page for name, page in DOCS.items() if name != "benchmarks")]
_BESIDE = (*ROOT.glob("*.md"), *ROOT.glob("adr/*.md"), *ROOT.glob("examples/**/README.md"))
LINKING = [*DOCS.values(), *(Page(path) for path in sorted(_BESIDE))]


def named(pairs: list[tuple[Page, Any]], label: str) -> pytest.MarkDecorator:
    ids = [f"{page.path.stem}-{getattr(item, 'line', item)}" for page, item in pairs]
    return pytest.mark.parametrize(("page", label), pairs, ids=ids)


def examples(*languages: str) -> list[tuple[Page, Example]]:
    return [(page, example) for page in WRITTEN for example in page.examples_in(*languages)]


def first_rules() -> str:
    """The `rules.yaml` that the examples speak of."""
    return README.examples_in("yaml")[0].text
