"""What docs/moving/envoy-ratelimit.md shows is what comes of it."""

from __future__ import annotations

from pathlib import Path

import yaml

from headgate.importing.envoy_tree import KEYS
from tests.importing.envoy_node import imported
from tests.moving.claims import page

PAGE = page("envoy-ratelimit")


def test_the_rules_that_are_shown_are_those_that_the_file_becomes(tmp_path: Path) -> None:
    [theirs], [ours] = PAGE.examples_in("yml"), PAGE.examples_in("yaml")
    assert imported(tmp_path, theirs.text).document == yaml.safe_load(ours.text)


def test_every_key_of_their_files_is_spoken_of() -> None:
    spoken = PAGE.path.read_text(encoding="utf-8")
    assert [key for key in sorted(KEYS) if f"`{key}" not in spoken and f"{key}:" not in spoken] == []
