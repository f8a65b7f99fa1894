"""Entries of the control plane as lines of tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from headgate.cli.asking import Asked
from headgate.cli.control_client import Query
from headgate.cli.control_errors import printable

LIMIT_DEFAULT = 100
LIMIT_MAX = 100_000

Row = Sequence[str]


def show_list(
    asked: Asked,
    path: str,
    headings: Sequence[str],
    row: Callable[[dict[str, Any]], Row],
    *,
    limit: int,
    query: Query | None = None,
    more: str = "",
) -> list[dict[str, Any]]:
    """The first entries of a list, as a table or as JSON; that there are more is told beside it."""
    items, there_are_more = asked.control.pages(path, query, limit=limit)
    if asked.as_json:
        typer.echo(json.dumps(items, indent=2))
    else:
        show_table(headings, [row(item) for item in items])
    if there_are_more:
        typer.echo(f"these are the first {len(items):,}; there are more: --limit N{more}", err=True)
    return items


def show_table(headings: Sequence[str], rows: Sequence[Row]) -> None:
    from headgate.cli.output import console, table

    clean = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    console().print(table(headings, clean))


def show_entry(asked: Asked, body: Mapping[str, Any]) -> None:
    """One entry: JSON as it came, or YAML as it would be written into a file, with its history in a comment."""
    if asked.as_json:
        typer.echo(json.dumps(body, indent=2))
        return
    from headgate.cli.yaml_text import yaml_text

    meta = body.get("meta") or {}
    if meta:
        typer.echo(printable(f"# version {meta.get('version')}, {changed(meta)}"))
    typer.echo(yaml_text({name: value for name, value in body.items() if name != "meta"}), nl=False)


def changed(meta: Mapping[str, Any]) -> str:
    """When, and by whom."""
    by = meta.get("updated_by") or meta.get("created_by")
    return text(meta.get("updated") or meta.get("created")) + (f" by {by}" if by else "")


def text(value: object) -> str:
    """A cell: empty when there is nothing, JSON for what is more than text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def joined(value: object) -> str:
    """One word, or several by comma."""
    return ", ".join(text(item) for item in value) if isinstance(value, list) else text(value)


def match_text(match: Mapping[str, Any] | None) -> str:
    exact = (match or {}).get("descriptor_exact")
    if isinstance(exact, Mapping):
        return _whole_text(exact)
    return " ".join(f"{name}={joined(value)}" for name, value in (match or {}).items()) or "any"


def _whole_text(exact: Mapping[str, Any]) -> str:
    """`edge: path=/x, user` for a whole descriptor."""
    entries = [f"{entry['key']}={entry['value']}" if "value" in entry else entry["key"] for entry in exact["entries"]]
    return f"{text(exact['domain'])}: {joined(entries)}"


def limit_text(limit: object) -> str:
    """Limits as they are written, labels and algorithms left out."""
    if isinstance(limit, list):
        return ", ".join(limit_text(item) for item in limit)
    if isinstance(limit, Mapping):
        return text(limit.get("limit"))
    return text(limit)
