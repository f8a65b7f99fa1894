"""The files shown on the pages become the rules shown beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.importing.kong import read_kong
from headgate.importing.limitador import read_limitador
from tests.docs.pages import DOCS
from tests.importing.deciding import Reader


def named(document: dict[str, Any]) -> dict[str, Any]:
    return {rule["name"]: rule for rule in document["rules"]}


@pytest.mark.parametrize(("page", "read"), [("limitador", read_limitador), ("kong", read_kong)])
def test_the_file_of_a_page_becomes_the_rules_beside_it(tmp_path: Path, page: str, read: Reader) -> None:
    examples = {example.title: example.text for example in DOCS[f"moving/{page}"].examples}
    path = tmp_path / "theirs.yaml"
    path.write_text(examples[page])
    imported = read([path])
    assert named(yaml.safe_load(examples["headgate"])) == named(imported.document)
    assert not [note for note in imported.notes if note.level == "cannot"]
