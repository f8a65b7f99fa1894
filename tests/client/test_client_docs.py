"""docs/client.md says what exists, and its examples run against a real server."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import headgate.client
import headgate.client.requests
from headgate.client import RetryOptions, RetryReport
from headgate.client.answer import OLDER_PREFIXES
from tests.client.limited_app import Served
from tests.docs.pages import DOCS

PAGE = DOCS["client"]


def test_the_examples_run_in_order_as_one_program(served: Served) -> None:
    program: dict[str, Any] = {"__name__": "example"}
    for example in PAGE.examples_in("python"):
        text = "\n" * (example.line - 1) + example.text.replace("https://api.example.com", served.url)
        exec(compile(text, str(PAGE.path), "exec"), program)  # The examples are our own.
    assert served.app.answered[200] >= 20


def shown(default: object) -> str:
    return " ".join(str(item) for item in sorted(default)) if isinstance(default, frozenset) else str(default)


def test_every_option_is_documented_with_its_default() -> None:
    documented = [tuple(cell.strip("`") for cell in row[:2]) for row in PAGE.section("RetryOptions").rows()]
    options = RetryOptions()
    existing = [(item.name, shown(getattr(options, item.name))) for item in dataclasses.fields(options)]
    assert documented == existing


def test_every_member_of_a_report_is_documented() -> None:
    assert PAGE.section("RetryReport").codes() == [item.name for item in dataclasses.fields(RetryReport)]


@pytest.mark.parametrize("name", [*headgate.client.__all__, "RetryAdapter", "report_of"])
def test_every_public_name_is_documented_and_exists(name: str) -> None:
    module = headgate.client if name in headgate.client.__all__ else headgate.client.requests
    assert getattr(module, name).__doc__
    assert name in PAGE.path.read_text(encoding="utf-8")


def test_every_header_that_is_read_is_documented() -> None:
    text = PAGE.path.read_text(encoding="utf-8").lower()
    assert all(prefix in text for prefix in OLDER_PREFIXES)


def test_docstrings_and_page_name_the_same_options() -> None:
    for kind in (RetryOptions, RetryReport):
        assert kind.__doc__ is not None
        for item in dataclasses.fields(kind):
            assert f"    {item.name}  " in kind.__doc__
