"""The JSON Schema of rule documents, for editors. The engine stays the judge of what a rule means."""

from __future__ import annotations

from pathlib import Path

_SCHEMA_FILE = Path(__file__).with_name("rules.schema.json")


def schema_text() -> str:
    return _SCHEMA_FILE.read_text(encoding="utf-8")
