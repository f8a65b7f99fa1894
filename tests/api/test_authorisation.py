"""Every route × every kind of caller. The routes are taken from the application: a new one cannot be forgotten."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute

from headgate.control.api.admission import role_of
from headgate.control.tokens import Role
from tests.api.plane import Plane, problem

OPEN = {"/healthz", "/readyz", "/metrics", "/api/docs", "/api/openapi.json"}
NODES = {"/feed/v1/deltas", "/feed/v1/snapshot", "/feed/v1/heartbeat"}
# What DESIGN says of each role; a route that asks for less than this is a mistake however its code looks.
ADMINS_ONLY = re.compile(r"/api/v1/(tokens|calls|backup|rollback)")
VALUES = {"principal": "user", "v": "1", "name": "no-such", "value": "no-such", "id": "no-such"}
STRANGERS = {
    "nobody": None,
    "malformed": "hga_not-a-token",
    "unknown": "hga_" + "a" * 12 + "_" + "A" * 43,
    "expired": "expired",
    "revoked": "revoked",
}


def routes(plane: Plane) -> list[tuple[str, str, Role | None]]:
    found = []
    for route in plane.app.routes:
        assert isinstance(route, APIRoute), route
        found += [(method, route.path_format, role_of(route)) for method in sorted(route.methods or ())]
    return found


def path_of(template: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: VALUES[found[1]], template)


def test_every_route_asks_for_a_role_unless_it_is_open_to_all(plane: Plane) -> None:
    for method, template, role in routes(plane):
        if template in OPEN | NODES:
            assert role is None, template
            continue
        assert template.startswith("/api/v1/")
        assert role is not None, f"{method} {template} lets everybody in"
        if method != "GET":
            assert role >= Role.EDITOR, f"{method} {template} lets viewers change something"
        if ADMINS_ONLY.match(template) or (template.startswith("/api/v1/keys") and method != "GET"):
            assert role is Role.ADMIN, f"{method} {template} is for admins"


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.word)
def test_a_role_is_let_in_where_it_may_go_and_nowhere_else(plane: Plane, role: Role) -> None:
    client = plane.client(role.word)
    for method, template, needed in routes(plane):
        if needed is None:
            continue
        response = client.request(method, path_of(template))
        if role >= needed:
            assert response.status_code not in (401, 403, 500), f"{method} {template}: {response.text}"
        else:
            body = problem(response, 403)
            assert needed.word in body["detail"]
            assert role.word in body["detail"]


@pytest.mark.parametrize("who", list(STRANGERS))
def test_nobody_else_is_let_in_anywhere(plane: Plane, who: str) -> None:
    client = plane.client(STRANGERS[who])
    for method, template, needed in routes(plane):
        if needed is None and template not in NODES:
            continue
        response = client.request(method, path_of(template))
        problem(response, 401)
        assert response.headers["www-authenticate"].startswith("Bearer")


def test_what_is_open_is_open_without_a_token(plane: Plane) -> None:
    client = plane.client(None)
    for path in OPEN:
        assert client.get(path).status_code == 200, path


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "bearer\thga_x", "Bearer hga_" + "x" * 5000, "Bearer ☃"],
)
def test_a_header_that_makes_no_sense_lets_nobody_in(plane: Plane, header: str) -> None:
    response = plane.client(None).get("/api/v1/me", headers={b"Authorization": header.encode()})
    problem(response, 401)


def test_two_authorization_headers_let_nobody_in(plane: Plane) -> None:
    good = f"Bearer {plane.texts['admin']}"
    response = plane.client(None).get("/api/v1/me", headers=[("Authorization", good), ("Authorization", good)])
    problem(response, 401)


def test_a_token_with_a_wrong_secret_is_unknown(plane: Plane) -> None:
    text = plane.texts["admin"]
    for wrong in (text[:-1] + ("a" if text[-1] != "a" else "b"), text + "a", text[:-1], text.upper()):
        problem(plane.client(wrong).get("/api/v1/me"), 401)


def test_a_revoked_token_ends_at_once(plane: Plane) -> None:
    admin = plane.client()
    made: dict[str, Any] = admin.post("/api/v1/tokens", json={"name": "ci", "role": "editor"}).json()
    ci = plane.client(made["token"])
    assert ci.get("/api/v1/me").json()["name"] == "ci"
    revoked = admin.post(f"/api/v1/tokens/{made['id']}:revoke")
    assert revoked.json()["state"] == "revoked"
    assert "ended" in problem(ci.get("/api/v1/me"), 401)["detail"]


def test_the_last_admin_cannot_be_revoked(plane: Plane) -> None:
    admin = plane.client()
    own = admin.get("/api/v1/me").json()["id"]
    assert "last" in problem(admin.post(f"/api/v1/tokens/{own}:revoke"), 409)["detail"]
    admin.post("/api/v1/tokens", json={"name": "another", "role": "admin"})
    assert admin.post(f"/api/v1/tokens/{own}:revoke").status_code == 200
    problem(admin.get("/api/v1/me"), 401)


def test_calls_that_changed_something_or_were_refused_are_on_record(plane: Plane) -> None:
    rule = {"name": "a", "by": "user", "limit": "1/s"}
    plane.client("editor").post("/api/v1/rules", json=rule, params={"why": "because"})
    plane.client("editor").post("/api/v1/rules", json=rule | {"name": "b"}, params={"dry_run": "true"})
    plane.client("viewer").get("/api/v1/rules")
    plane.client("viewer").delete("/api/v1/rules/a")
    plane.client("hga_guess").get("/api/v1/rules")
    told = [(row["who"], row["method"], row["path"], row["status"], row["why"]) for row in plane.recorded()]
    assert told == [
        ("malformed token", "GET", "/api/v1/rules", 401, None),
        ("viewer", "DELETE", "/api/v1/rules/a", 403, None),
        ("editor", "POST", "/api/v1/rules", 201, "because"),
    ]
