"""Getting at a store: passwords, certificates, and what a person is told when it cannot be."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest

from headgate import Limiter
from headgate.errors import ConfigError, StoreError
from tests.conformance.fake_servers import http_server, old_redis, silent_server
from tests.conformance.stores import PATIENT_S
from tests.servers.ports import free_cluster_port, free_port
from tests.servers.server import Server
from tests.servers.tls import Authority, tls_front

SECRET = "hunter2-§/@:%"
# As the message of a refused user says it.
RIGHTS = "~hg1:* +@read +@write +@scripting +info +time +client|setname"


def works(url: str) -> bool:
    decision = Limiter(store=url, store_deadline=PATIENT_S).check_limit("k", 100, 60)
    return decision.allowed and decision.path == "store"


def refusal(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        Limiter(store=url, store_deadline=PATIENT_S)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


def test_a_password_opens_the_store_and_a_wrong_one_does_not() -> None:
    with Server(password=SECRET) as server:
        assert works(server.url)
        assert works(server.unix_url)
        assert works(f"unix://{server.socket_path}?password=hunter2-%C2%A7%2F%40%3A%25")
        assert "password is wrong" in refusal(server.url_for("", "hunter2"))
        assert "asks for a password" in refusal(f"redis://{server.address}")


def test_a_password_for_a_server_that_has_none_is_told(own_server: Server) -> None:
    assert "password" in refusal(f"redis://:hunter2@{own_server.address}")


def test_a_user_with_the_rights_we_ask_for_can_use_the_store() -> None:
    users = [f"app on >s3cret {RIGHTS}", "reader on >hunter2 ~hg1:* +@read"]
    with Server(users=users) as server:
        limiter = Limiter(store=server.url_for("app", "s3cret"), store_deadline=PATIENT_S)
        for algorithm in ("sliding_window", "gcra", "sliding_log"):
            decision = limiter.check_limit("k", 5, 60, cost=2, algorithm=algorithm)
            assert (decision.path, decision.remaining) == ("store", 3)
            assert limiter.refund(decision) >= 1
            limiter.reset_limit("k", 5, 60, algorithm=algorithm)
            assert limiter.peek_limit("k", 5, 60, cost=0, algorithm=algorithm).remaining == 5
        words = refusal(server.url_for("reader", "hunter2"))
        assert all(right in words for right in RIGHTS.split())
        assert "password is wrong" in refusal(server.url_for("app", "hunter2"))
        assert "password is wrong" in refusal(server.url_for("nobody", "hunter2"))


def test_tls_goes_by_the_authority_and_shows_its_own_certificate(own_server: Server, tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    with tls_front(own_server.port, ours) as front:
        assert works(f"{front.url}?ca={ours.certificate}")
        assert "TLS" in refusal(front.url)
    with tls_front(own_server.port, ours, client_certificate=True) as front:
        client = ours.client
        assert works(f"{front.url}?ca={ours.certificate}&cert={client.certificate}&key={client.key}")
        assert not works(f"{front.url}?ca={ours.certificate}")


def test_tls_refuses_a_server_of_another_authority(own_server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours, theirs = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    with tls_front(own_server.port, theirs) as front:
        assert "TLS" in refusal(f"{front.url}?ca={ours.certificate}")


def test_what_is_no_redis_is_told_so() -> None:
    with http_server() as address:
        words = refusal(f"redis://:hunter2@{address}")
        assert "not a Redis or Valkey server" in words
        assert address in words


def test_a_server_too_old_is_told_so() -> None:
    with old_redis() as address:
        words = refusal(f"redis://{address}")
        assert "Redis 6.2.14 is too old" in words
        assert "needs Redis 7" in words


def test_a_node_of_a_cluster_is_not_taken_for_a_server() -> None:
    with Server(port=free_cluster_port(), args=("--cluster-enabled", "yes")) as server:
        assert "redis+cluster://" in refusal(server.url)


def test_a_server_that_never_answers_does_not_keep_a_program_from_starting() -> None:
    with silent_server() as address:
        start_s = time.monotonic()
        limiter = Limiter(store=f"redis://{address}", on_store_failure="closed")
        assert limiter.check_limit("k", 5, 60).path == "fallback_closed"
        assert time.monotonic() - start_s < 20


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("hunter2", "expected a URL"),
        ("mongo://user:hunter2@host", "not a store"),
        ("redis://user:hunter2@host:port", "not HOST:PORT"),
        ("redis://user:hunter2@host:99999", "not HOST:PORT"),
        ("redis://user:hunter2@", "not HOST:PORT"),
        ("redis://:hunter2@a,b", "one server"),
        ("redis://:hunter2@host/x", "database"),
        ("redis://:hunter2@host/-1", "database"),
        ("redis://:hunter2%zz@host", "hexadecimal"),
        ("redis://:hunter2@host?colour=red", "unknown option"),
        ("redis://:hunter2@host?ca=/x", "rediss://"),
        ("rediss://:hunter2@host?cert=/x", "go together"),
        ("rediss://:hunter2@host?ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("redis+sentinel://:hunter2@host", "primary's name"),
        ("redis+cluster://:hunter2@host/1", "database 0"),
        ("unix://relative.sock?password=hunter2", "absolute path"),
        ("REDIS://:hunter2@host", "not a store"),
        ("", "expected a URL"),
    ],
)
def test_a_mistake_in_a_url_is_told_without_its_secrets(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Limiter(store=url)
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value).replace("`hunter2`", "")


def test_a_secret_is_never_in_the_status_or_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    limiter = Limiter(store=f"redis://user:hunter2@127.0.0.1:{free_port()}")
    limiter.check_limit("k", 5, 60)
    said = limiter.store_status() + caplog.text + repr(limiter)
    assert "not reachable" in said
    assert "hunter2" not in said


def test_a_server_that_may_evict_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with Server(maxmemory="100mb", maxmemory_policy="allkeys-lru") as server:
        limiter = Limiter(store=server.url, store_deadline=PATIENT_S)
        for _ in range(3):
            assert limiter.check_limit("k", 5, 60).path == "store"
        warnings = [event for event in json.loads(limiter.store_status())["events"] if event["kind"] == "warning"]
    assert len(warnings) == 1
    assert "may evict counters (maxmemory-policy allkeys-lru)" in warnings[0]["detail"]
    assert caplog.text.count("may evict counters") == 1


def test_a_server_that_keeps_everything_is_not_warned_of(own_server: Server) -> None:
    limiter = Limiter(store=own_server.url, store_deadline=PATIENT_S)
    limiter.check_limit("k", 5, 60)
    assert "warning" not in limiter.store_status()
