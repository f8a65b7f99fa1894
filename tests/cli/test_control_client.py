"""Asking a control plane: what is sent, and what becomes of every kind of answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.cli.control_client import Control, path_of
from headgate.cli.control_connection import Address
from headgate.cli.control_errors import ControlRefused, ControlUnreachable
from headgate.errors import ConfigError
from tests.cli.scripted import Said, problem, scripted
from tests.servers.tls import Authority

TOKEN = "hga_t1_secret"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://127.0.0.1:8080", ("127.0.0.1", 8080, False, "")),
        ("http://[::1]:8080/", ("::1", 8080, False, "")),
        ("https://control.example/headgate/", ("control.example", 443, True, "/headgate")),
        ("http://control.example", ("control.example", 80, False, "")),
    ],
)
def test_an_address_is_read(text: str, found: tuple[str, int, bool, str]) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.tls, address.prefix) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8080",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host/?a=b",
        "unix://host/path",
        "http://a b",
    ],
)
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="expected http://HOST:PORT"):
        Address.parse(text)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        Address.parse("http://me:hunter2@host:8080")
    assert "hunter2" not in str(caught.value)


def test_what_people_chose_is_never_syntax() -> None:
    assert path_of("rules", "a/b?c#d e\r\nX: y", verb="enable") == "/rules/a%2Fb%3Fc%23d%20e%0D%0AX%3A%20y:enable"
    with scripted(Said(body={})) as server:
        Control(server.url, TOKEN).get(path_of("rules", "ä/../x"), {"q": "a&b=c\r\n", "none": None, "on": True})
    assert server.heard[0].target == "/api/v1/rules/%C3%A4%2F..%2Fx?q=a%26b%3Dc%0D%0A&on=true"


def test_the_token_is_sent_and_shown_nowhere() -> None:
    with scripted(Said(body={}), Said(401, problem(401, "unknown token"))) as server:
        control = Control(server.url, TOKEN)
        control.get("/me")
        with pytest.raises(ControlRefused) as caught:
            control.get("/me")
    assert server.heard[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in repr(control) + str(caught.value) + repr(caught.value)
    assert "headgate tokens create" in str(caught.value)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with scripted(Said(body={"name": "me"})) as server:
        assert Control(server.url, TOKEN).get("/me").body == {"name": "me"}


def test_a_unix_socket_is_asked(tmp_path: Path) -> None:
    with scripted(Said(body=[1]), socket_path=tmp_path / "control.sock") as server:
        assert Control(server.url, TOKEN).get("/me").body == [1]


def test_a_certificate_is_asked_for_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    with scripted(Said(body=[1]), Said(body=[2]), tls=authority.server_context()) as server:
        with pytest.raises(ControlUnreachable, match="certificate"):
            Control(server.url, TOKEN).get("/me")
        assert server.heard == [], "the token was not sent"
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        assert Control(server.url, TOKEN).get("/me").body == [1]
        elsewhere = server.url.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(ControlUnreachable):
            Control(elsewhere, TOKEN).get("/me")


def test_a_problem_names_each_field() -> None:
    said = problem(422, "2 mistakes", ("limit", "expected COUNT/UNIT"), ("match.ip", "not an address"))
    with scripted(Said(422, said)) as server, pytest.raises(ControlRefused) as caught:
        Control(server.url, TOKEN).send("POST", "/rules", {"name": "a"})
    assert str(caught.value) == "2 mistakes\n  limit: expected COUNT/UNIT\n  match.ip: not an address"
    assert caught.value.is_mistake


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([("limit", "no limit")], "limit: no limit"),
        ([("limit", "no limit"), ("", "x")], "2 mistakes; nothing was changed\n  limit: no limit\n  x"),
    ],
)
def test_what_the_fields_say_is_not_said_twice(errors: list[tuple[str, str]], told: str) -> None:
    detail = "\n".join(f"{path}: {message}" if path else message for path, message in errors)
    with scripted(Said(422, problem(422, detail, *errors))) as server, pytest.raises(ControlRefused) as caught:
        Control(server.url, TOKEN).get("/rules")
    assert str(caught.value) == told


def test_what_an_answer_says_cannot_drive_the_terminal() -> None:
    said = Said(409, problem(409, "\x1b[2Jgone", ("\x07", "\x1b]0;x")))
    with scripted(said) as server, pytest.raises(ControlRefused) as caught:
        Control(server.url, TOKEN).get("/rules")
    assert not set(str(caught.value)) & set("\x1b\x07")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Said(body=b"<html>"), "is not a Headgate control plane"),
        (Said(404, b"<html>"), "is it a Headgate control plane?"),
        (Said(302, b"", {"Location": "http://127.0.0.1:1/"}), "answered with status 302"),
        (Said(429, problem(429, "too many"), {"Retry-After": "7"}), "too many; try again in 7 s"),
        (Said(503, problem(503, "the database does not answer")), "the database does not answer"),
        (Said(body={"a": "b" * 100}, cut=10), "closed before the answer was there"),
    ],
)
def test_other_answers_are_told_for_what_they_are(said: Said, message: str) -> None:
    with scripted(said) as server, pytest.raises((ControlRefused, ControlUnreachable)) as caught:
        Control(server.url, TOKEN).get("/rules")
    assert message in str(caught.value)


def test_nobody_there_is_told_with_the_address() -> None:
    with scripted() as server:
        pass
    with pytest.raises(ControlUnreachable, match="Connection refused; is it running there") as caught:
        Control(server.url, TOKEN).get("/rules")
    assert server.url in str(caught.value)


def test_an_answer_is_not_waited_for_for_ever() -> None:
    with scripted(Said(silent=True)) as server, pytest.raises(ControlUnreachable, match="no answer in time"):
        Control(server.url, TOKEN).get("/rules", timeout_s=0.05)


def test_pages_follow_each_other_until_there_are_enough() -> None:
    pages = [Said(body={"items": [{"n": 1}, {"n": 2}], "next": "c2"}), Said(body={"items": [{"n": 3}], "next": "c3"})]
    with scripted(*pages) as server:
        items, more = Control(server.url, TOKEN).pages("/rules", {"q": None}, limit=3)
    assert ([item["n"] for item in items], more) == ([1, 2, 3], True)
    assert [heard.target for heard in server.heard] == ["/api/v1/rules?limit=3", "/api/v1/rules?limit=1&cursor=c2"]


def test_a_list_that_never_ends_is_not_followed_for_ever() -> None:
    with scripted(Said(body={"items": [], "next": "c"}), Said(body=[1])) as server:
        control = Control(server.url, TOKEN)
        assert control.pages("/rules", limit=10) == ([], True)
        with pytest.raises(ControlUnreachable, match="not a Headgate control plane"):
            control.pages("/rules", limit=10)


def test_an_upload_arrives_whole() -> None:
    chunks = [b"a" * 70_000, b"b" * 70_000]
    with scripted(Said(body={"version": "1.2"}, headers={"X-Headgate-Version": "1.2"})) as server:
        answer = Control(server.url, TOKEN).upload("/apply", chunks, 140_000, query={"prune": False})
    assert answer.position == "1.2"
    assert server.heard[0].body == b"".join(chunks)
    assert server.heard[0].headers["content-type"] == "application/x-ndjson"


def test_an_upload_ends_with_the_answer_that_comes_before_its_end() -> None:
    sent = 0

    def chunks() -> object:
        nonlocal sent
        for _ in range(10_000):
            sent += 1
            yield b"x" * 65_536

    said = Said(422, problem(422, "1 mistake", ("line 1", "not JSON")), early=True)
    with scripted(said) as server, pytest.raises((ControlRefused, ControlUnreachable)):
        Control(server.url, TOKEN).upload("/apply", chunks(), 10_000 * 65_536)  # type: ignore[arg-type]
    assert sent < 10_000


def test_a_download_that_is_cut_short_is_an_error() -> None:
    with scripted(Said(body=b"x" * 200_000), Said(body=b"x" * 200_000, cut=1), Said(403, problem(403, "no"))) as server:
        control = Control(server.url, TOKEN)
        assert sum(len(chunk) for chunk in control.download("/backup")) == 200_000
        with pytest.raises(ControlUnreachable):
            list(control.download("/backup"))
        with pytest.raises(ControlRefused, match="no"):
            list(control.download("/backup"))
