"""What nobody should send, and what nobody should be told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import structlog

from headgate.control.api.strict_json import DEPTH_MAX
from headgate.storage.sql import Database
from tests.api.plane import KEY_SECRET, Plane, make_plane, problem

INJECTIONS = (
    "' OR '1'='1",
    "'; DROP TABLE rules; --",
    '" OR ""="',
    "\\'; SELECT pg_sleep(10); --",
    "%' UNION SELECT hash FROM tokens --",
    "%",
    "_",
    "%%",
    "$1",
    ":name",
    "{id}",
    "?",
    "\\",
    "x'/*",
    "ʼ OR 1=1",
)
RULE = {"by": "user", "limit": "1/s"}
WITH_FILTERS = {
    "/api/v1/rules": ("q", "tier", "endpoint", "method", "user", "org", "ip", "group", "action", "region", "api_key"),
    "/api/v1/overrides": ("user", "org", "api_key", "tier"),
    "/api/v1/keys": ("user", "org", "tier"),
    "/api/v1/blocks": ("ip", "user", "org", "api_key"),
    "/api/v1/calls": ("who",),
}


def test_sql_in_names_is_a_name(any_plane: Plane) -> None:
    client = any_plane.client()
    client.put("/api/v1/rules/innocent", json=RULE)
    for text in INJECTIONS:
        path = f"/api/v1/rules/{quote(text, safe='')}"
        assert client.put(path, json=RULE, params={"why": text}).status_code == 201, text
        assert client.get(path).json()["name"] == text
        assert client.get(f"{path}:history").json()["items"][0]["why"] == text
        assert [rule["name"] for rule in client.get("/api/v1/rules", params={"q": text}).json()["items"]] == [text]
        user = f"/api/v1/overrides/user/{quote(text, safe='')}"
        assert client.put(user, json={"limit": "1/s"}).json()["user"] == text
        assert len(client.get("/api/v1/overrides", params={"user": text}).json()["items"]) == 1
        assert client.delete(user).status_code == 204
        assert client.delete(path).status_code == 204
    assert client.get("/api/v1/rules/innocent").status_code == 200


def test_sql_in_filters_finds_nothing(any_plane: Plane) -> None:
    client = any_plane.client()
    client.put("/api/v1/rules/innocent", json=RULE)
    for path, names in WITH_FILTERS.items():
        for name in names:
            for text in INJECTIONS:
                response = client.get(path, params={name: text})
                if response.status_code == 422:
                    continue
                assert response.status_code == 200, f"{path}?{name}={text}: {response.text}"
                assert response.json()["items"] == [], f"{path}?{name}={text}"


def test_sql_in_ids_and_cursors_is_refused(any_plane: Plane) -> None:
    client = any_plane.client()
    for text in INJECTIONS:
        for path in ("keys", "blocks", "tokens", "versions"):
            response = client.get(f"/api/v1/{path}/{quote(text, safe='')}")
            assert response.status_code in (404, 422), response.text
        problem(client.get("/api/v1/rules", params={"cursor": text}), 400)


@pytest.mark.parametrize("end", ["%0a", "%0d%0aSet-Cookie:%20a=b", "%00", "%7f", "%1b[2J"])
def test_control_characters_in_a_path_are_refused(plane: Plane, end: str) -> None:
    client = plane.client()
    client.put("/api/v1/rules/a", json=RULE)
    for method in ("GET", "PUT", "DELETE"):
        response = client.request(method, f"/api/v1/rules/a{end}")
        problem(response, 400)
        assert "set-cookie" not in response.headers


def test_no_text_that_is_sent_becomes_a_header(plane: Plane) -> None:
    client = plane.client()
    nasty = "a\r\nSet-Cookie: a=b"
    problem(client.put("/api/v1/rules/a", json=RULE, params={"why": nasty}), 422)
    problem(client.put("/api/v1/rules/a", json=RULE | {"name": nasty}), 422)
    problem(client.post("/api/v1/tokens", json={"name": nasty, "role": "viewer"}), 422)
    problem(client.post("/api/v1/blocks", json={"user": nasty}), 422)
    made = client.put(f"/api/v1/rules/{quote('é☃')}", json=RULE)
    assert made.headers["location"].isascii()
    assert "set-cookie" not in made.headers


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"by":"user","by":"ip","limit":"1/s"}', "twice"),
        (b'{"by":"user","limit":"1/s","priority":NaN}', "NaN"),
        (b'{"by":"user","limit":"1/s","priority":1e999}', "too large"),
        (b'{"by":"user","limit":"1/s","priority":' + b"9" * 5000 + b"}", "too large"),
        (b'{"by":"user","limit":"1/s","description":"\\ud800"}', "surrogate"),
        (b'{"by":"user","limit":"1/s","description":"\\u0000"}', "NUL"),
        (b'{"by":"user","limit":"1/s"', "not JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "nested"),
        (b"[" * 100_000, "n"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested"),
        (b"", "JSON"),
    ],
)
def test_json_that_means_two_things_or_none_is_refused(plane: Plane, body: bytes, said: str) -> None:
    response = plane.client().put("/api/v1/rules/a", content=body, headers={"Content-Type": "application/json"})
    assert said in problem(response, 400)["detail"]


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"1", b"true"])
def test_a_body_must_be_an_object(plane: Plane, body: bytes) -> None:
    client = plane.client(**{"Content-Type": "application/json"})
    problem(client.put("/api/v1/rules/a", content=body), 422)
    problem(client.post("/api/v1/apply", content=body), 422)


@pytest.mark.parametrize("media", ["text/plain", "", "application/xml", "application/json; charset=latin-1"])
def test_a_body_must_say_that_it_is_json(plane: Plane, media: str) -> None:
    headers = {"Content-Type": media} if media else {}
    problem(plane.client().put("/api/v1/rules/a", content=b"{}", headers=headers), 415)
    problem(plane.client().post("/api/v1/apply", content=b"{}", headers=headers), 415)


def test_a_body_is_bounded_whether_it_tells_its_size_or_not(plane: Plane) -> None:
    client = plane.client(**{"Content-Type": "application/json"})
    large = b'{"description":"' + b"x" * 2**20 + b'"}'
    problem(client.put("/api/v1/rules/a", content=large), 413)
    problem(client.put("/api/v1/rules/a", content=iter([large[:1000], large[1000:]])), 413)
    problem(client.put("/api/v1/rules/a", content=b"{}", headers={"Content-Length": "9" * 30}), 413)


def test_what_is_not_there_or_not_done_is_a_problem(plane: Plane) -> None:
    client = plane.client()
    for path in ("/", "/api", "/api/v1", "/api/v1/", "/api/v1/rule", "/api/v2/rules", "/console", "/api/v1/rules/"):
        assert client.get(path).status_code in (404, 422), path
    response = client.post("/api/v1/rules/a")
    problem(response, 405)
    assert response.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"
    options = client.options("/api/v1/rules/a")
    assert (options.status_code, options.headers["allow"]) == (204, response.headers["allow"])
    assert not [name for name in options.headers if name.startswith("access-control")]
    head = client.head("/api/v1/rules")
    assert (head.status_code, head.content) == (200, b"")
    problem_free = client.head("/api/v1/backup")
    assert (problem_free.status_code, problem_free.content) == (405, b"")


def test_an_error_inside_is_told_by_a_number_alone(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the secret word is hgk_secret")

    monkeypatch.setattr(plane.app.state.inside.services.changes, "create", fail)
    with structlog.testing.capture_logs() as logged:
        response = plane.client().post("/api/v1/rules", json=RULE)
    body = problem(response, 500)
    assert "secret word" not in response.text
    number = body["instance"].rpartition(":")[2]
    assert [line["id"] for line in logged if line["event"] == "call_failed"] == [number]
    assert "secret word" not in str(logged)


def test_no_secret_is_kept_or_told(
    sqlite_url: str, sqlite: Database, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """In clear nowhere: not in the database's files, in what is logged, in answers of other routes, in `repr`."""
    caplog.set_level(logging.DEBUG)
    with make_plane(sqlite) as plane:
        client = plane.client()
        token = client.post("/api/v1/tokens", json={"name": "ci", "role": "admin"}).json()["token"]
        key = client.post("/api/v1/keys", json={"user": "42"}).json()
        rotated = client.post(f"/api/v1/keys/{key['id']}:rotate").json()
        ci = plane.client(token)
        answers = [ci.get(path).text for path in ("/api/v1/tokens", "/api/v1/keys", "/api/v1/versions", "/metrics")]
        answers += [ci.get(f"/api/v1/versions/{v}/changes").text for v in (1, 2)]
        answers += [ci.get(f"/api/v1/keys/{key['id']}:history").text, ci.get("/api/v1/export").text]
        # Sent where they do not belong: mistakes quote what they were sent, never what it was sent with.
        answers.append(ci.post("/api/v1/rules", json={"by": "user"}).text)
        answers.append(plane.client(token + "x").get("/api/v1/me").text)
        answers += [str(row) for row in plane.recorded()]
        inside = plane.app.state.inside
        answers += [repr(inside), repr(inside.services), repr(inside.doorman), repr(inside.services.changes)]
        secrets = [token, key["key"], rotated["key"], *plane.texts.values()]
    told = capfd.readouterr()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    kept = b"".join(file.read_bytes() for file in path.parent.glob(path.name + "*"))
    for secret in [text.rpartition("_")[2] for text in secrets] + [KEY_SECRET.decode()]:
        assert secret.encode() not in kept
        for text in (*answers, told.out, told.err, caplog.text):
            assert secret not in text


def test_a_document_of_very_many_values_is_refused_before_it_is_read(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes tens of times the memory that it has bytes."""
    monkeypatch.setattr("headgate.control.api.strict_json.VALUES_MAX", 1_000)
    body = b'{"rules":[' + b"[]," * 1_000 + b"[]]}"
    told = problem(
        plane.client().post("/api/v1/apply", content=body, headers={"Content-Type": "application/json"}), 413
    )
    assert "1,000 values" in told["detail"]
