"""The API's documentation as one page of HTML, without a script: it works wherever the API does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; } pre { background: var(--soft); padding: .7rem; overflow: auto; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .5rem .8rem; }
summary { cursor: pointer; } summary b { display: inline-block; min-width: 4.5rem; } summary i { opacity: .7; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .6rem .25rem 0;
vertical-align: top; border-top: 1px solid var(--line); } h2 { margin-top: 2rem; text-transform: capitalize; }
"""


@dataclass(frozen=True, slots=True)
class DocsTexts:
    """The OpenAPI document and its page, ready to send."""

    openapi: bytes
    page: bytes


def docs_texts(document: dict[str, Any]) -> DocsTexts:
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return DocsTexts(text.encode(), docs_page(document).encode())


def docs_page(document: dict[str, Any]) -> str:
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            groups.setdefault(tag, []).append(_operation(method, path, operation))
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in groups.items())
    about = "".join(f"<p>{_text(part)}</p>" for part in info.get("description", "").split("\n\n"))
    schemas = "".join(
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>{_json(part)}</details>"
        for name, part in sorted(document["components"]["schemas"].items())
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(info['title'])}: the admin API</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}: the admin API</h1>{about}"
        "<p>For machines: <a href='openapi.json'>openapi.json</a>.</p>"
        f"{body}<h2>schemas</h2>{schemas}</body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    role = operation.get("x-headgate-role")
    asks = f" <i>{escape(role)}</i>" if role else ""
    told = operation.get("description") or operation.get("summary", "")
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code>{asks}</summary>"
        f"<p>{_text(told)}</p>{_parameters(operation)}{_request(operation)}{_answers(operation)}</details>"
    )


def _parameters(operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{_text(one.get('description', ''))}</td></tr>"
        for one in operation.get("parameters", ())
    )
    return f"<table><tr><th>parameter</th><th>in</th><th></th></tr>{rows}</table>" if rows else ""


def _request(operation: dict[str, Any]) -> str:
    shown = []
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        examples = "".join(_json(one["value"]) for one in content.get("examples", {}).values())
        shown.append(f"<p>Body: <code>{escape(media)}</code> {_schema(content)}</p>{examples}")
    return "".join(shown)


def _answers(operation: dict[str, Any]) -> str:
    rows = []
    for status, answer in sorted(operation["responses"].items()):
        kinds = " ".join(_schema(content) for content in answer.get("content", {}).values())
        rows.append(
            f"<tr><td><code>{escape(status)}</code></td><td>{_text(answer['description'])}</td><td>{kinds}</td></tr>"
        )
    return f"<table><tr><th>answer</th><th></th><th></th></tr>{''.join(rows)}</table>"


def _schema(content: dict[str, Any]) -> str:
    part = content.get("schema", {})
    found = [part, *part.get("anyOf", ()), part.get("properties", {}).get("items", {}).get("items", {})]
    names = [one["$ref"].rpartition("/")[2] for one in found if "$ref" in one]
    return " ".join(f"<a href='#{escape(name)}'><code>{escape(name)}</code></a>" for name in names)


def _json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"


def _text(text: str) -> str:
    """Plain text with `code` in it."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if nth % 2 else part for nth, part in enumerate(parts))
