"""What an operator does all day: making, changing, finding and taking away."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.plane import Plane, problem

RULE = {"name": "login", "match": {"endpoint": "/login", "tier": "free"}, "by": "user", "limit": "5/minute"}


def test_a_rule_lives_its_life(any_plane: Plane) -> None:
    client = any_plane.client("editor")
    made = client.post("/api/v1/rules", json=RULE, params={"why": "we open"})
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/rules/login"
    assert made.headers["etag"] == '"v1"'
    assert made.headers["x-headgate-version"].endswith(".1")
    assert {name: made.json()[name] for name in RULE} == RULE
    assert made.json()["meta"]["created_by"] == "editor"
    problem(client.post("/api/v1/rules", json=RULE), 409)

    patched = client.patch("/api/v1/rules/login", json={"limit": "9/minute", "match": {"tier": None}})
    assert patched.json()["match"] == {"endpoint": "/login"}
    assert patched.headers["etag"] == '"v2"'
    assert client.post("/api/v1/rules/login:disable").json()["enabled"] is False
    assert "enabled" not in client.post("/api/v1/rules/login:enable").json()

    again = client.put("/api/v1/rules/login", json=RULE)
    assert (again.status_code, again.json()["meta"]["version"]) == (200, 5)
    same = client.put("/api/v1/rules/login", json=again.json())
    assert same.json()["meta"]["version"] == 5, "what changes nothing takes no version"

    gone = client.delete("/api/v1/rules/login")
    assert (gone.status_code, gone.content) == (204, b"")
    problem(client.get("/api/v1/rules/login"), 404)
    problem(client.delete("/api/v1/rules/login"), 404)
    history = client.get("/api/v1/rules/login:history").json()["items"]
    assert [step["verb"] for step in history] == ["delete", "replace", "enable", "disable", "patch", "create"]
    assert (history[-1]["why"], history[-1]["who"], history[0]["after"]) == ("we open", "editor", None)


def test_the_short_form_makes_a_rule(plane: Plane) -> None:
    made = plane.client().post("/api/v1/rules", json={"endpoint": "/api/v1/payment", "limit": 10, "window": "60s"})
    assert made.status_code == 201
    assert made.json()["name"] == "api-v1-payment"
    assert made.json()["limit"] == "10/60s"


def test_a_dry_run_tells_what_would_change_and_who_would_win_and_changes_nothing(plane: Plane) -> None:
    client = plane.client()
    client.post("/api/v1/rules", json=RULE)
    other = {
        "name": "login-strict",
        "match": {"endpoint": "/login"},
        "by": "user",
        "limit": "1/minute",
        "priority": 900,
    }
    told = client.post("/api/v1/rules", json=other, params={"dry_run": "true"})
    assert told.status_code == 200
    body = told.json()
    assert body["dry_run"] is True
    assert [(one["kind"], one["id"], one["before"]) for one in body["changes"]] == [("rule", "login-strict", None)]
    assert ("login", "login-strict") in [(one["winner_before"], one["winner_after"]) for one in body["contests"]]
    problem(client.get("/api/v1/rules/login-strict"), 404)
    assert client.get("/api/v1/me").json()["head"].endswith(".1")


def test_of_two_writers_who_read_the_same_one_is_told_that_it_is_late(any_plane: Plane) -> None:
    one, other = any_plane.client(), any_plane.client("editor")
    one.post("/api/v1/rules", json=RULE)
    read = one.get("/api/v1/rules/login").headers["etag"]
    first = one.patch("/api/v1/rules/login", json={"limit": "1/s"}, headers={"If-Match": read})
    assert first.status_code == 200
    for late in (
        other.patch("/api/v1/rules/login", json={"limit": "2/s"}, headers={"If-Match": read}),
        other.put("/api/v1/rules/login", json=RULE, headers={"If-Match": read}),
        other.delete("/api/v1/rules/login", headers={"If-Match": read}),
        other.post("/api/v1/rules/login:disable", headers={"If-Match": read}),
    ):
        problem(late, 412)
        assert late.headers["etag"] == first.headers["etag"]
    assert other.get("/api/v1/rules/login").json()["limit"] == "1/s"


def test_conditions_on_what_is_there_or_not(plane: Plane) -> None:
    client = plane.client()
    assert client.put("/api/v1/rules/login", json=RULE, headers={"If-None-Match": "*"}).status_code == 201
    problem(client.put("/api/v1/rules/login", json=RULE, headers={"If-None-Match": "*"}), 412)
    assert client.put("/api/v1/rules/login", json=RULE, headers={"If-Match": "*"}).status_code == 200
    problem(client.put("/api/v1/rules/other", json=RULE | {"name": "other"}, headers={"If-Match": "*"}), 404)
    for stale in ('"v99"', 'W/"v1"', '"abc"', '"v0"'):
        problem(client.delete("/api/v1/rules/login", headers={"If-Match": stale}), 412)
    for nonsense in ("v1", '"v1", "v2"', "", '"'):
        problem(client.delete("/api/v1/rules/login", headers={"If-Match": nonsense}), 400)


def test_names_may_hold_slashes_colons_and_anything_printable(any_plane: Plane) -> None:
    client = any_plane.client()
    for name in ("a/b", "a b", "ünï/☃", "a:history", "50%", "a?b#c", "x:enable", "'; DROP TABLE rules; --"):
        path = f"/api/v1/rules/{quote(name, safe='')}"
        assert client.put(path, json={"by": "user", "limit": "1/s"}).status_code == 201, name
        assert client.get(path).json()["name"] == name
        assert client.post(f"{path}:disable").status_code == 200, name
        assert len(client.get(f"{path}:history").json()["items"]) == 2, name
        assert client.delete(path).status_code == 204, name


def test_so_may_the_ids_of_overrides(plane: Plane) -> None:
    client = plane.client()
    for value in ("a/b", "a:history", "50%", ".."):
        path = f"/api/v1/overrides/user/{quote(value, safe='').replace('.', '%2E')}"
        assert client.put(path, json={"limit": "5/s"}).status_code == 201, value
        assert client.get(path).json()["user"] == value
        assert len(client.get(f"{path}:history").json()["items"]) == 1, value


def test_a_mistake_is_told_with_its_path(plane: Plane) -> None:
    client = plane.client()
    body = problem(client.put("/api/v1/rules/x", json={"by": "user", "limit": "often", "match": {"ip": "1.2.3"}}), 422)
    assert {error["path"] for error in body["errors"]} == {"limit", "match.ip"}
    body = problem(client.put("/api/v1/rules/x", json={"name": "y", "by": "user", "limit": "1/s"}), 422)
    assert body["errors"][0]["path"] == "name"
    body = problem(client.post("/api/v1/blocks", json={"ip": "203.0.113.7/24", "for": "soon"}), 422)
    assert body["errors"]
    body = problem(client.post("/api/v1/rollback", json={"version": "1", "x": 1}), 422)
    assert {error["path"] for error in body["errors"]} == {"version", "x"}


def test_tiers_overrides_blocks_and_switches(any_plane: Plane) -> None:
    client = any_plane.client("editor")
    assert client.put("/api/v1/tiers/free", json={"description": "Anybody"}).status_code == 201
    assert client.put("/api/v1/tiers/pro").status_code == 201
    assert [tier["name"] for tier in client.get("/api/v1/tiers").json()["items"]] == ["free", "pro"]
    assert client.put("/api/v1/overrides/user/42", json={"tier": "pro"}).status_code == 201
    assert client.patch("/api/v1/overrides/user/42", json={"limit": "7/s"}).json()["user"] == "42"
    assert client.get("/api/v1/overrides", params={"tier": "pro"}).json()["items"][0]["limit"] == "7/s"
    assert client.get("/api/v1/overrides", params={"blocked": "true"}).json()["items"] == []
    assert "42" in problem(client.delete("/api/v1/tiers/pro"), 409)["detail"]
    problem(client.put("/api/v1/overrides/user/43", json={"tier": "gold"}), 422)
    problem(client.get("/api/v1/overrides/tier/43"), 422)
    assert client.delete("/api/v1/overrides/user/42").status_code == 204
    assert client.delete("/api/v1/tiers/pro").status_code == 204

    block = client.post("/api/v1/blocks", json={"ip": "203.0.113.0/24", "for": "1h", "why": "scraping"})
    assert (block.status_code, block.json()["active"]) == (201, True)
    assert client.get("/api/v1/blocks", params={"active": "true"}).json()["items"] == [block.json()]
    assert client.get("/api/v1/blocks", params={"active": "false"}).json()["items"] == []
    assert client.get(block.headers["location"]).json() == block.json()
    assert client.delete(block.headers["location"]).status_code == 204

    client.post("/api/v1/rules", json={"name": "all", "by": "user", "limit": "1/s"})
    problem(client.put("/api/v1/switches/no-such-rule"), 404)
    assert client.put("/api/v1/switches/all").status_code == 200
    assert client.put("/api/v1/switches/*").json()["id"] == "*"
    assert [one["id"] for one in client.get("/api/v1/switches").json()["items"]] == ["*", "all"]
    assert client.delete("/api/v1/switches/*").status_code == 204
    problem(client.delete("/api/v1/switches/*"), 404)


def test_a_key_is_told_once_revoked_and_rotated(any_plane: Plane) -> None:
    client = any_plane.client()
    made = client.post("/api/v1/keys", json={"user": "42", "name": "billing", "limit": "5/s"}).json()
    assert made["key"].startswith(f"hgk_{made['id']}_")
    shown = client.get(f"/api/v1/keys/{made['id']}").json()
    assert "key" not in shown
    assert "hash" not in shown
    assert shown["state"] == "active"
    assert client.get(f"/api/v1/overrides/api_key/{made['id']}").json()["limit"] == "5/s"
    assert client.patch(f"/api/v1/keys/{made['id']}", json={"name": "new name"}).json()["name"] == "new name"
    for fixed in ("hash", "revoked", "id"):
        problem(client.patch(f"/api/v1/keys/{made['id']}", json={fixed: None}), 422)
    ending = client.patch(f"/api/v1/keys/{made['id']}", json={"expires": "90d"}).json()
    assert ending["expires"] > made["created"]
    problem(client.patch(f"/api/v1/keys/{made['id']}", json={"expires": "soon"}), 422)
    second = client.post(f"/api/v1/keys/{made['id']}:rotate", json={"grace": "24h"}).json()
    assert second["id"] != made["id"]
    assert (second["user"], second["name"]) == ("42", "new name")
    assert client.get(f"/api/v1/keys/{made['id']}").json()["state"] == "active"
    assert client.post(f"/api/v1/keys/{made['id']}:revoke").json()["state"] == "revoked"
    listed = client.get("/api/v1/keys", params={"state": "active", "user": "42"}).json()["items"]
    assert [key["id"] for key in listed] == [second["id"]]
    history = client.get(f"/api/v1/keys/{made['id']}:history").text
    assert "hash" not in history


def test_pages_hold_everything_once(any_plane: Plane) -> None:
    client = any_plane.client()
    names = [f"rule-{number:03}" for number in range(25)]
    for name in names:
        client.put(f"/api/v1/rules/{name}", json={"by": "user", "limit": "1/s", "match": {"org": "acme"}})
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params: dict[str, Any] = {"limit": 7, "org": "acme"} | ({"cursor": cursor} if cursor else {})
        page = client.get("/api/v1/rules", params=params).json()
        seen += [rule["name"] for rule in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == names
    assert client.get("/api/v1/rules", params={"org": "other"}).json() == {"items": [], "next": None}
    assert [rule["name"] for rule in client.get("/api/v1/rules", params={"q": "-01"}).json()["items"]] == names[10:20]
    versions = client.get("/api/v1/versions", params={"limit": 10}).json()
    assert [one["version"] for one in versions["items"]] == list(range(25, 15, -1))
    rest = client.get("/api/v1/versions", params={"limit": 1000, "cursor": versions["next"]}).json()
    assert [one["version"] for one in rest["items"]] == list(range(15, 0, -1))


def test_a_cursor_is_good_for_its_own_list_and_unaltered(plane: Plane) -> None:
    client = plane.client()
    for name in ("a", "b", "c"):
        client.put(f"/api/v1/rules/{name}", json={"by": "user", "limit": "1/s"})
    cursor = client.get("/api/v1/rules", params={"limit": 1}).json()["next"]
    assert client.get("/api/v1/rules", params={"cursor": cursor}).json()["items"][0]["name"] == "b"
    for other in ("/api/v1/tiers", "/api/v1/versions", "/api/v1/tokens"):
        problem(client.get(other, params={"cursor": cursor}), 400)
    altered = ("A" if cursor[0] != "A" else "B") + cursor[1:]
    for bad in (altered, cursor[:-2], cursor + "AA", "", "%00", "[]", "é"):
        problem(client.get("/api/v1/rules", params={"cursor": bad}), 400)
    problem(client.get("/api/v1/rules", params={"cursor": cursor, "q": "a"}), 400)


def test_queries_say_only_what_a_route_knows(plane: Plane) -> None:
    client = plane.client()
    for query, named in (
        ("limti=3", "query.limti"),
        ("limit=0", "query.limit"),
        ("limit=1001", "query.limit"),
        ("limit=1&limit=2", "query.limit"),
        ("q=%00", "query.q"),
        ("enabled=maybe", "query.enabled"),
        ("tier=" + "x" * 1025, "query.tier"),
    ):
        body = problem(client.get(f"/api/v1/rules?{query}"), 422)
        assert body["errors"][0]["path"] == named
    problem(client.get("/api/v1/rules?q=" + "x" * 9000), 414)


def test_the_way_back(any_plane: Plane) -> None:
    client = any_plane.client()
    client.post("/api/v1/rules", json=RULE)
    key = client.post("/api/v1/keys", json={"user": "42"}).json()
    client.delete("/api/v1/rules/login")
    client.post(f"/api/v1/keys/{key['id']}:revoke")
    changed = client.get("/api/v1/diff", params={"from": 1, "to": 4}).json()
    assert [(one["kind"], one["id"]) for one in changed["changes"]] == [("rule", "login"), ("key", key["id"])]
    assert "hash" not in json.dumps(changed)
    problem(any_plane.client("editor").post("/api/v1/rollback", json={"version": 1}), 403)
    told = client.post("/api/v1/rollback", json={"version": 1}, params={"dry_run": "true"}).json()
    assert (told["dry_run"], told["created"]) == (True, 1)
    back = client.post("/api/v1/rollback", json={"version": 1}, params={"why": "oops"})
    assert back.json()["created"] == 1
    assert client.get("/api/v1/rules/login").json()["limit"] == RULE["limit"]
    assert client.get(f"/api/v1/keys/{key['id']}").json()["state"] == "revoked"
    newest = client.get("/api/v1/versions/5").json()
    assert (newest["verb"], newest["why"], newest["who"]) == ("rollback", "oops", "admin")
    assert client.get("/api/v1/versions/5/changes").json()["items"][0]["id"] == "login"
    problem(client.get("/api/v1/versions/99"), 404)
    problem(client.post("/api/v1/rollback", json={"version": 99}), 404)


@pytest.mark.parametrize("format", ["json", "ndjson"])
def test_what_is_exported_applies_to_no_change(any_plane: Plane, format: str) -> None:
    client = any_plane.client()
    document = {
        "tiers": ["free", {"name": "pro", "description": "Payers"}],
        "rules": [{"name": f"rule {n}", "match": {"user": str(n)}, "by": "user", "limit": "1/s"} for n in range(50)],
        "overrides": [{"user": "7", "tier": "pro"}],
    }
    applied = client.post("/api/v1/apply", json=document).json()
    assert (applied["created"], applied["unchanged"], len(applied["changes"])) == (53, 0, 53)
    exported = client.get("/api/v1/export", params={"format": format})
    media = "application/json" if format == "json" else "application/x-ndjson"
    again = client.post(
        "/api/v1/apply", content=exported.content, headers={"Content-Type": media}, params={"prune": "true"}
    )
    assert again.status_code == 200, again.text
    told = again.json()
    assert (told["created"], told["replaced"], told["deleted"]) == (0, 0, 0)
    assert told["version"].endswith(".1")


def test_the_largest_page_says_that_there_is_another(any_plane: Plane) -> None:
    client = any_plane.client()
    rules = [{"name": f"r{number:04}", "by": "user", "limit": "1/s"} for number in range(1001)]
    assert client.post("/api/v1/apply", json={"rules": rules}).status_code == 200
    for path in ("/api/v1/rules", "/api/v1/versions/1/changes"):
        page = client.get(path, params={"limit": 1000}).json()
        assert len(page["items"]) == 1000
        rest = client.get(path, params={"limit": 1000, "cursor": page["next"]}).json()
        assert (len(rest["items"]), rest["next"]) == (1, None)
