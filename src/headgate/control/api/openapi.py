"""The OpenAPI document: FastAPI's, with the schema of rules files and what all routes have in common."""

from __future__ import annotations

import copy
import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headgate.control.api import asked, models
from headgate.control.api.admission import role_of
from headgate.model import schema_text

_ABOUT = """Rules, tiers, overrides, API keys, blocks and switches, with their history.

Every call needs `Authorization: Bearer hga_…`. A token has a role: a viewer looks, an editor changes rules, an admin
does everything. Every change takes a version, keeps who made it and why, and reaches every node within half a second.

Errors are `application/problem+json` (RFC 9457) with the path of each field that is wrong."""

_BEARER = "token"
_META = "Meta"
# Models that no route names as an answer, so that FastAPI does not find them.
_BESIDE: tuple[type[BaseModel], ...] = (
    models.ProblemBody,
    models.DryRun,
    models.Meta,
    asked.TierAsked,
    asked.ShortRule,
    asked.KeyAsked,
    asked.RotateAsked,
    asked.BlockAsked,
    asked.Rollback,
    asked.TokenAsked,
)
_REF = "#/components/schemas/"


def attach(app: FastAPI) -> None:
    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = make(app)
        return app.openapi_schema

    # As FastAPI's own documentation replaces it.
    app.openapi = document  # type: ignore[method-assign]


def make(app: FastAPI) -> dict[str, Any]:
    shown = get_openapi(
        title="Headgate",
        version=app.version,
        description=_ABOUT,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    parts = shown.setdefault("components", {})
    schemas: dict[str, Any] = parts.setdefault("schemas", {})
    _, beside = models_json_schema([(kind, "validation") for kind in _BESIDE], ref_template=_REF + "{model}")
    schemas |= beside.get("$defs", {})
    # FastAPI's own form of a 422, which is never answered here.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _rule_schemas()
    parts["securitySchemes"] = {
        _BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token: `hga_…`. `headgate tokens create` makes one.",
        }
    }
    for route in app.routes:
        role = role_of(route)
        operations = shown["paths"].get(getattr(route, "path_format", None), {})
        for method in getattr(route, "methods", ()) if role is not None else ():
            assert role is not None
            operation = operations.get(method.lower())
            if operation is not None:
                operation["security"] = [{_BEARER: []}]
                operation["x-headgate-role"] = role.word
    return shown


def _rule_schemas() -> dict[str, Any]:
    """The `$defs` of rules files as components. A rule that is shown has `meta`, which is not read when it is sent."""
    whole = json.loads(schema_text())
    named = {f"Rules.{name}": part for name, part in whole.pop("$defs").items()}
    for extra in ("$schema", "$id"):
        whole.pop(extra, None)
    schemas = {"Document": whole, **named}
    schemas["Rule"] = schemas.pop("Rules.rule")
    schemas["Override"] = schemas.pop("Rules.override")
    for name in ("Rule", "Override"):
        schemas[name]["properties"]["meta"] = {"$ref": _REF + _META, "readOnly": True}
    # What stands in the path need not be said again.
    schemas["OverrideAsked"] = copy.deepcopy(schemas["Override"])
    schemas["OverrideAsked"].pop("oneOf")
    schemas["RuleAsked"] = copy.deepcopy(schemas["Rule"])
    schemas["RuleAsked"].pop("required")
    # Tiers are shown with their descriptions; files name them alone.
    whole["properties"]["tiers"] = {
        "type": ["array", "null"],
        "items": {"anyOf": [{"$ref": "#/$defs/text"}, {"$ref": "#/$defs/tier"}]},
    }
    schemas["Rules.tier"] = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
    }
    return {name: _moved(part) for name, part in schemas.items()}


def _moved(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            name: _place(value) if name == "$ref" and isinstance(value, str) else _moved(value)
            for name, value in part.items()
        }
    return [_moved(item) for item in part] if isinstance(part, list) else part


def _place(ref: str) -> str:
    name = ref.removeprefix("#/$defs/")
    if name == ref:
        return ref
    return _REF + {"rule": "Rule", "override": "Override"}.get(name, f"Rules.{name}")
