"""docs/api.md says what exists, no more and no less, and its examples work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from fastapi.routing import APIRoute

from headgate.control.api import described
from headgate.control.api.admission import role_of
from headgate.control.api.limits import API_RULES
from headgate.storage.sql import Database
from tests.api.plane import Plane, make_whole_plane
from tests.docs.pages import DOCS

PAGE = DOCS["api"]
ROUTES = re.compile(r"`([A-Z]+) (/\S+)`")


def test_every_route_is_documented_with_its_role(plane: Plane) -> None:
    documented = {
        (*found.groups(), row[1])
        for section in PAGE.sections
        for row in section.rows()
        if (found := ROUTES.match(row[0]))
    }
    existing = {
        (method, route.path_format.removeprefix("/api/v1"), role.word)
        for route in plane.app.routes
        if isinstance(route, APIRoute) and (role := role_of(route)) is not None
        for method in route.methods or ()
    }
    assert documented == existing


def test_every_filter_is_documented(plane: Plane) -> None:
    told = {row[0].strip("`"): row[2] for section in PAGE.sections for row in section.rows() if ROUTES.match(row[0])}
    for path, operations in plane.app.openapi()["paths"].items():
        for one in operations.get("get", {}).get("parameters", ()):
            if one["in"] == "query" and one["name"] not in ("limit", "cursor"):
                text = told[f"GET {path.removeprefix('/api/v1')}"]
                assert re.search(rf"`{one['name']}[`=]", text), f"{path}: {one['name']}"


def test_every_metric_is_documented_with_its_kind_and_labels(sqlite: Database, tmp_path: Path) -> None:
    with make_whole_plane(sqlite, tmp_path) as plane:
        client = plane.client()
        client.get("/api/v1/me")
        told = client.get("/metrics").text
    kinds = dict(re.findall(r"# TYPE (\w+) (\w+)", told))
    labels = {name: set(re.findall(r'(\w+)="', "".join(re.findall(rf"^{name}{{(.*)}}", told, re.M)))) for name in kinds}
    rows = PAGE.section("Health and metrics").rows()
    assert {row[0].strip("`"): row[1] for row in rows} == kinds
    for row in rows:
        documented = set(re.findall(r"`(\w+)`", row[2]))
        assert labels[row[0].strip("`")] in (documented, set()), row[0]


def test_every_status_is_documented(plane: Plane) -> None:
    listed = {int(row[0]) for row in PAGE.section("Errors").rows()}
    assert listed == {*described._PHRASES, 405}


def test_the_limits_are_as_documented() -> None:
    documented = [(row[0].strip("`"), row[2]) for row in PAGE.section("Bounds").rows() if len(row) == 3]
    assert documented == [(rule["name"], rule.get("limit", "not limited")) for rule in API_RULES["rules"]]


def test_examples_of_the_openapi_document_work(plane: Plane) -> None:
    client = plane.client()
    for path, operations in plane.app.openapi()["paths"].items():
        for method, operation in operations.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                for name, example in content.get("examples", {}).items():
                    if "{" in path or name == "rollback":
                        continue
                    response = client.request(method, path, json=example["value"])
                    assert response.status_code in (200, 201), f"{method} {path} {name}: {response.text}"


def test_examples_are_answered(plane: Plane) -> None:
    client = plane.client()
    count = 0
    for example in PAGE.examples_in("console"):
        for command in re.findall(r"^\$ (curl .*)$", example.text.replace("\\\n", " "), re.M):
            words = shlex.split(command)
            path = words[1].removeprefix("localhost:8090")
            response = client.post(path, json=json.loads(words[words.index("-d") + 1]))
            assert response.status_code == 201, response.text
            count += 1
    assert count == 3
