"""Plain data as YAML that our own reader takes for the same data. It reads only JSON's words as more than text, which
is not what other writers expect: `1e5` as text needs quotes here and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import yaml

from headgate.model.nodes import plain_value

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_COLUMNS = 110


class _Dumper(_DUMPER):  # type: ignore[misc]
    def ignore_aliases(self, _data: Any) -> bool:
        """What is the same twice is written twice: people edit one of them."""
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None if plain_value(text) == (text, None) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def document_text(document: Any, *, is_json: bool) -> str:
    """As a file of rules is written."""
    return json.dumps(document, indent=2) + "\n" if is_json else yaml_text(document)


def yaml_text(value: Any) -> str:
    written: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_COLUMNS)
    return written
