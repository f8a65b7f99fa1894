"""Rule documents are bounded: nothing that is written can unfold beyond what is stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import RulesFileError
from headgate.model import nodes
from headgate.model.document import parse_text, read_document


def mistakes_of(text: str) -> list[str]:
    try:
        found = parse_text(text, "rules.yaml", is_json=False).flaws
    except RulesFileError as error:
        found = error.mistakes
    return [str(mistake) for mistake in found]


def test_an_alias_bomb_is_refused_before_it_unfolds() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "values (aliases count each time they are used)" in mistakes_of("\n".join(lines))[0]


def test_an_alias_bomb_of_long_text_is_refused() -> None:
    text = f"a: &a {'x' * 1_000_000}\nrules: [{', '.join(['*a'] * 100)}]\n"
    assert "unfolds to more than" in mistakes_of(text)[0]


def test_aliases_cannot_build_depth_beyond_the_bound() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 5000)]
    assert "deeper than 32" in mistakes_of("\n".join(lines))[0]


def test_a_merge_bomb_is_refused() -> None:
    keys = ", ".join(f"k{n}: x" for n in range(1000))
    text = f"a: &a {{{keys}}}\nrules:\n" + "  - <<: *a\n" * 3000
    assert "values (aliases count" in mistakes_of(text)[0]


def test_a_file_beyond_the_bound_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    with path.open("wb") as file:
        file.truncate(nodes.TEXT_BYTES_MAX + 1)
    with pytest.raises(RulesFileError, match="larger than 16 MiB"):
        read_document(path)


def test_a_file_full_of_mistakes_gives_the_first_thousand() -> None:
    found = mistakes_of("rules:\n" + "".join("  - {a: 1, a: 2}\n" for _ in range(5000)))
    assert len(found) == nodes.MISTAKES_MAX + 1
    assert "the rest was not read" in found[-1]


def test_data_that_contains_itself_is_refused() -> None:
    rule: dict[str, object] = {"name": "a"}
    rule["match"] = rule
    with pytest.raises(RulesFileError, match="contains itself"):
        read_document([rule])
