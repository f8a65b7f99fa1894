"""Addresses, sockets, secrets and certificates: who else could get at them, and for how long they are good."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from headgate.doctor.finding import Finding, Level, merged, worst
from headgate.doctor.gather.bounded import together, within
from headgate.doctor.gather.certificates import look_at_certificate
from headgate.doctor.gather.files import SocketFacts, look_at_config, look_at_secrets, look_at_snapshot, look_at_socket
from headgate.doctor.gather.listeners import Door, doors_of, look_at_doors
from headgate.doctor.gather.process import ProcessFacts, look_at_process
from headgate.doctor.gather.sources import look_at_sources
from headgate.doctor.gather.upstreams import look_at_upstreams
from headgate.doctor.judge.files import judge_certificate, judge_secret, judge_snapshot
from headgate.doctor.judge.listeners import judge_doors, judge_proxies, judge_reach, judge_socket
from headgate.doctor.judge.process import judge_process
from headgate.doctor.judge.sources import judge_sources
from headgate.doctor.judge.upstreams import judge_upstreams
from headgate.settings import Settings, read_settings
from tests.doctor.seen import bad, only
from tests.servers.ports import HOST, free_port

TLS = {"tls_cert": "c.pem", "tls_key": "k.pem"}
OWN_CA = {**TLS, "tls_client_ca": "ca.pem"}
NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"grpc": "[::1]:8081", "admin": "localhost:1"}, {}),
        ({"listen": "0.0.0.0:8080"}, {"listeners.clear": "warning", "listeners.metrics_open": "warning"}),
        ({"listen": "0.0.0.0:8080", "admin": "127.0.0.1:1"}, {"listeners.clear": "warning"}),
        ({"listen": "10.0.0.1:1", "admin": "127.0.0.1:1", **TLS}, {"listeners.no_client_ca": "warning"}),
        ({"listen": "10.0.0.1:1", "admin": "127.0.0.1:1", **OWN_CA}, {}),
        ({"grpc": "[::]:8081", "admin": "127.0.0.1:1"}, {"listeners.clear": "warning"}),
        ({"admin": "0.0.0.0:1"}, {"listeners.admin_open": "note"}),
        ({"admin": "0.0.0.0:1", **OWN_CA}, {}),
        ({"admin": "0.0.0.0:1", "admin_tls": "off", **OWN_CA}, {"listeners.admin_open": "note"}),
        # At a gateway the API is elsewhere.
        ({"listen": "0.0.0.0:80", "upstream": "http://a"}, {"listeners.gateway_clear": "note"}),
        ({"listen": "0.0.0.0:443", "upstream": "http://a", **TLS}, {}),
        (
            {"listen": "0.0.0.0:80", "upstream": "http://a", "grpc": "0.0.0.0:81"},
            {
                "listeners.gateway_clear": "note",
                "listeners.clear": "warning",
                "listeners.metrics_open": "warning",
            },
        ),
    ],
)
def test_who_can_reach_a_node(settings: dict[str, str], expected: dict[str, str]) -> None:
    chosen = Settings(**settings)  # type: ignore[arg-type]
    doors = [Door(name, settings[name]) for name in ("listen", "grpc", "admin") if name in settings]
    assert bad(judge_doors(doors, chosen, is_gateway="upstream" in settings)) == expected


def test_of_a_running_node_every_address_answers() -> None:
    with socket.create_server((HOST, 0)) as listening:
        there = f"0.0.0.0:{listening.getsockname()[1]}"
        gone = f"{HOST}:{free_port()}"
        doors = look_at_doors(Settings(listen=there, grpc=gone, admin=f"{HOST}:0"))
    assert [door.error is None for door in doors[:2]] == [True, False]
    found = list(judge_reach(doors, is_running=True))
    assert [finding.seen.partition(":")[0] for finding in found] == [f"grpc {HOST}"]
    assert list(judge_reach(doors, is_running=False)) == []
    nobodys = [dataclasses.replace(door, is_chosen=False) for door in doors]
    assert list(judge_reach(nobodys, is_running=True)) == []


def test_an_address_that_nobody_named_is_known_for_one() -> None:
    chosen = read_settings({"listen": "127.0.0.1:1"}, environ={}, defaults={"grpc": "127.0.0.1:8081"})
    assert {door.name: door.is_chosen for door in doors_of(chosen)} == {"listen": True, "grpc": False}


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ("127.0.0.0/8,::1/128,10.0.0.0/8", {}),
        ("10.0.0.0/8,0.0.0.0/0", {"listeners.trusts_everyone": "problem"}),
        ("::/0", {"listeners.trusts_everyone": "problem"}),
        ("128.0.0.0/2", {"listeners.trusts_many": "warning"}),
        (None, {}),
    ],
)
def test_whose_word_about_addresses_is_taken(ranges: str | None, expected: dict[str, str]) -> None:
    assert bad(judge_proxies(ranges)) == expected


@pytest.mark.parametrize(
    ("mode", "folder_mode", "expected"),
    [
        (0o660, 0o755, {}),
        (0o600, 0o755, {"listeners.socket_closed": "note"}),
        (0o666, 0o755, {"listeners.socket_open": "warning"}),
        (0o660, 0o777, {"listeners.socket_replaceable": "warning"}),
        (0o660, 0o1777, {}),
    ],
)
def test_who_can_use_a_socket(mode: int, folder_mode: int, expected: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(folder_mode)
    path = folder / "node.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(mode)
        assert bad(judge_socket(look_at_socket(str(path)))) == expected


def test_something_else_is_where_the_socket_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert bad(judge_socket(look_at_socket(str(tmp_path / "file")))) == {"listeners.not_a_socket": "problem"}
    assert look_at_socket(str(tmp_path / "none")) == SocketFacts(str(tmp_path / "none"))
    assert bad(judge_socket(look_at_socket(str(tmp_path / "none")))) == {}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o600, {}), (0o640, {}), (0o644, {"files.open": "warning"}), (0o602, {"files.open": "warning"})],
)
def test_secrets_that_others_can_read(mode: int, expected: dict[str, str], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(mode)
    found = [one for facts in look_at_secrets(Settings(jwt_secret_file=str(secret))) for one in judge_secret(facts)]
    assert bad(found) == expected
    assert "hunter2" not in repr(found)


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    (facts,) = look_at_secrets(Settings(feed_key_file=str(tmp_path / "none")))
    assert bad(judge_secret(facts)) == {"files.unreadable": "problem"}


def test_a_settings_file_with_a_password_is_a_secret(tmp_path: Path) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text('store = "redis://:hunter2@cache"\n')
    config.chmod(0o644)
    facts = look_at_config(read_settings(config=str(config), environ={}))
    assert facts is not None
    found = list(judge_secret(facts))
    assert bad(found) == {"files.open": "warning"}
    assert "hunter2" not in repr(found)
    config.write_text('store = "redis://cache"\n')
    assert look_at_config(read_settings(config=str(config), environ={})) is None


def certificate(folder: Path, left: timedelta, issuer: trustme.CA | None = None) -> tuple[str, str]:
    issued = (issuer or trustme.CA()).issue_cert("localhost", not_before=NOW - timedelta(days=90), not_after=NOW + left)
    files = folder / "c.pem", folder / "k.pem"
    issued.cert_chain_pems[0].write_to_path(files[0])
    issued.private_key_pem.write_to_path(files[1])
    return str(files[0]), str(files[1])


@pytest.mark.parametrize(
    ("left", "level"),
    [
        (timedelta(days=60), "ok"),
        (timedelta(days=20), "note"),
        (timedelta(days=3), "warning"),
        (timedelta(hours=-1), "problem"),
    ],
)
def test_certificates_that_end(left: timedelta, level: str, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, left)
    facts = look_at_certificate("tls_cert", cert, key)
    assert abs(facts.ends[0] - (NOW + left)) < timedelta(seconds=2)
    assert only(judge_certificate(facts, NOW), "files.certificate_ends").level.word == level


def test_a_certificate_far_in_the_future_is_read(tmp_path: Path) -> None:
    """From 2050 on, certificates write the year with four digits."""
    cert, key = certificate(tmp_path, timedelta(days=365 * 40))
    assert look_at_certificate("tls_cert", cert, key).ends[0].year == (NOW + timedelta(days=365 * 40)).year


def test_keys_that_belong_to_another_certificate_and_files_that_are_none(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    cert, key = certificate(tmp_path, timedelta(days=60))
    _, wrong = certificate(other, timedelta(days=60))
    empty = tmp_path / "empty"
    empty.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for facts in (
        look_at_certificate("tls_cert", cert, wrong),
        look_at_certificate("tls_cert", key),
        look_at_certificate("tls_cert", str(empty)),
        look_at_certificate("tls_cert", str(tmp_path / "none")),
    ):
        assert bad(judge_certificate(facts, NOW)) == {"files.certificate": "problem"}
    assert "not that of the certificate" in str(look_at_certificate("tls_cert", cert, wrong).error)


def test_where_rules_are_kept(tmp_path: Path) -> None:
    assert bad(judge_snapshot(look_at_snapshot(str(tmp_path / "rules.hgs")))) == {}
    nowhere = look_at_snapshot(str(tmp_path / "no" / "rules.hgs"))
    assert bad(judge_snapshot(nowhere)) == {"files.snapshot": "warning"}


def test_upstreams_that_are_there_and_that_are_not(tmp_path: Path) -> None:
    path = str(tmp_path / "app.sock")
    gone = free_port()
    with socket.create_server((HOST, 0)) as app, socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        other.listen()
        port = app.getsockname()[1]
        text = f"http://{HOST}:{port},/api=h2c://{HOST}:{gone},/ws=unix:{path},/me=http://{HOST}:8080"
        found = list(judge_upstreams(look_at_upstreams(text, None), [Door("listen", "0.0.0.0:8080")]))
    assert [(one.code, one.level.word, one.seen.partition(" ")[0]) for one in found] == [
        ("upstreams.away", "ok", "/"),
        ("upstreams.away", "problem", "/api"),
        ("upstreams.away", "ok", "/ws"),
        ("upstreams.loop", "problem", "/me"),
    ]


def test_an_upstream_whose_certificate_is_not_trusted(tmp_path: Path) -> None:
    issuer = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert(HOST).configure_cert(context)
    ca = tmp_path / "ca.pem"
    issuer.cert_pem.write_to_path(ca)
    with socket.create_server((HOST, 0)) as listening:
        threading.Thread(target=_shake, args=(listening, context), daemon=True).start()
        url = f"https://{HOST}:{listening.getsockname()[1]}"
        assert bad(judge_upstreams(look_at_upstreams(url, str(ca)), [])) == {}
        (found,) = judge_upstreams(look_at_upstreams(url, None), [])
        listening.shutdown(socket.SHUT_RDWR)
    assert "certificate is not trusted" in found.seen


def _shake(listening: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            accepted, _ = listening.accept()
        except OSError:
            return
        try:
            accepted.settimeout(5)
            context.wrap_socket(accepted, server_side=True).close()
        except OSError:
            accepted.close()


def test_sources_of_rules(tmp_path: Path) -> None:
    snapshot = tmp_path / "rules.hgs"
    snapshot.touch()
    gone = f"redis://:hunter2@{HOST}:{free_port()}"
    found = list(judge_sources(look_at_sources(f"{gone},{snapshot}"), has_key=True))
    assert bad(found) == {"sources.away": "warning"}
    assert "hunter2" not in repr(found)
    assert bad(judge_sources(look_at_sources(gone), has_key=False)) == {
        "sources.away": "problem",
        "sources.no_key": "problem",
    }
    assert bad(judge_sources(look_at_sources(f"sqlite:///{snapshot},{snapshot}"), has_key=True)) == {}


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (None, None, {}),
        (20_000, 20_000, {}),
        (1_024, 524_288, {"process.files": "note"}),
        (1_024, 4_096, {"process.files": "warning"}),
    ],
)
def test_files_for_every_connection(soft: int | None, hard: int | None, expected: dict[str, str]) -> None:
    assert bad(judge_process(ProcessFacts(soft, hard), 10_000)) == expected
    assert look_at_process().files_soft != 0


def test_a_look_that_does_not_come_back_is_left_behind() -> None:
    ending = threading.Event()
    try:
        found: dict[str, object] = together({"slow": ending.wait, "quick": lambda: True}, 0.5)
        assert found == {"quick": True}
        assert within(ending.wait, 0.1) is None
    finally:
        ending.set()


def test_the_same_of_many_places_is_one_finding() -> None:
    many = [Finding(Level.NOTE, "a.b", "title", f"place {n}", "do") for n in range(7)]
    (one,) = merged(many)
    assert one.seen == "place 0; place 1; place 2; place 3; place 4; and 2 more"
    assert worst([]) is Level.OK
