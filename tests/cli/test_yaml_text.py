"""What is exported as YAML is read as the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.yaml_text import yaml_text
from headgate.model.document import parse_text

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.from_regex(r"[-+]?[0-9_.eE:xob]{1,8}")
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


def read_back(value: Any) -> Any:
    return json.loads(parse_text(yaml_text({"rules": value}), "x.yaml", is_json=False).json)["rules"]


@given(values)
def test_whatever_is_written_is_read_as_the_same(value: Any) -> None:
    assert read_back(value) == value


@pytest.mark.parametrize(
    "text", ["1e5", "no", "0123", "~", "null", "1:30", "<<", "=", "", " a", "a: b", "- x", "\x85", "‮"]
)
def test_words_that_look_like_something_stay_text(text: str) -> None:
    assert read_back({"a": text, "b": [text]}) == {"a": text, "b": [text]}
