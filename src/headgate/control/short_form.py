"""`{"endpoint": "/api/v1/payment", "limit": 10, "window": "60s"}`: a rule in as few words as can be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headgate.control.entry_body import NAME_BYTES_MAX, Mistakes, as_text
from headgate.control.errors import Invalid

_KEYS = ("endpoint", "limit", "window", "name", "by", "method", "tier", "burst", "description")
# How often a name is counted up before somebody has to choose one.
_NAMES_MAX = 1_000
_SUFFIX_BYTES = 5
_ROOT_NAME = "root"


def is_short(body: Mapping[str, Any]) -> bool:
    """Rules have no `endpoint` and no `window` of their own, so either tells."""
    return "endpoint" in body or "window" in body


def long_form(body: Mapping[str, Any], is_taken: Callable[[str], bool]) -> dict[str, Any]:
    """The rule that is meant; its name is made from the endpoint unless given. Raises Invalid."""
    mistakes: Mistakes = []
    for key in body:
        if key not in _KEYS and key != "meta":
            words = f"`{key}` is not known in the short form; expected one of {', '.join(_KEYS)}"
            mistakes.append(((key,), words))
    endpoint = body.get("endpoint")
    if not isinstance(endpoint, str) or not endpoint:
        mistakes.append((("endpoint",), "expected a path such as `/api/v1/payment`"))
    limit = _limit(body, mistakes)
    if mistakes:
        raise Invalid(mistakes)
    match = {"endpoint": endpoint} | {fact: body[fact] for fact in ("method", "tier") if fact in body}
    rule = {"name": body.get("name"), "match": match, "by": body.get("by", "user"), "limit": limit}
    if rule["name"] is None:
        rule["name"] = free_name(str(endpoint), is_taken)
    return rule | ({"description": body["description"]} if "description" in body else {})


def free_name(endpoint: str, is_taken: Callable[[str], bool]) -> str:
    """`/api/v1/users/{id}` as `api-v1-users-id`, counted up until nobody has it."""
    stem = re.sub(r"[^A-Za-z0-9._]+", "-", endpoint.replace("*", "all")).strip("-") or _ROOT_NAME
    stem = stem[: NAME_BYTES_MAX - _SUFFIX_BYTES].rstrip("-")
    for nth in range(1, _NAMES_MAX):
        name = stem if nth == 1 else f"{stem}-{nth}"
        if not is_taken(name):
            return name
    raise Invalid([(("name",), f"there are {_NAMES_MAX - 1} rules called `{stem}` already; give this one a name")])


def _limit(body: Mapping[str, Any], mistakes: Mistakes) -> str:
    """`10` and `60s` are `10/60s`; a limit that is whole already (`10/minute`) needs no window."""
    limit, window = body.get("limit"), as_text(body.get("window"))
    if isinstance(limit, str) and "window" not in body:
        return limit
    count = as_text(limit)
    if not isinstance(count, str) or not re.fullmatch(r"[0-9_]+", count):
        mistakes.append((("limit",), "expected a whole number, as in `10`"))
    if not isinstance(window, str) or not window.strip():
        mistakes.append((("window",), "expected a length of time such as `60s`, `5 minutes` or `1h`"))
        return ""
    # A bare number is seconds, as it is for `check_limit`.
    seconds = "s" if re.fullmatch(r"\s*[0-9_]+\s*", window) else ""
    burst = f" burst {body['burst']}" if "burst" in body else ""
    return f"{count}/{window.strip()}{seconds}{burst}"
