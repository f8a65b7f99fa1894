"""JSON merge patch, RFC 7396."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.control.errors import Invalid
from headgate.model.plain_data import plain_data


def bounded_patch(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of bounded depth, without `meta`. Raises Invalid."""
    value, flaws = plain_data({name: item for name, item in patch.items() if name != "meta"})
    if flaws or not isinstance(value, dict):
        raise Invalid([(flaw.path, flaw.message) for flaw in flaws])
    return dict(value)


def merged(target: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """A new value; neither argument is changed."""
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merged(result.get(name), value)
        else:
            result[name] = value
    return result
