"""A key set behind a URL: rotation, and everything that can go wrong on the way to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate import Limiter
from headgate.errors import ConfigError
from headgate.node.identity_files import IdentityFiles
from headgate.settings import read_settings
from headgate.testing import FakeClock
from headgate.upkeep.fetch import BYTES_MAX, FetchError, fetch
from headgate.upkeep.jwks import JwksUrl, Timing
from tests.integration.http_node import PATIENCE_S, START_S, eventually
from tests.integration.jwks_server import JwksServer, nothing, redirect, text
from tests.integration.tokens import good, jwk, jwks, private_key

OLD, NEW = jwk("p256", kid="old"), jwk("p256", "next", kid="new")
# As the real ones, a hundred times quicker.
QUICK = Timing(refresh_s=0.6, least_s=0.15, timeout_s=0.5, look_s=0.01, jitter=0.0)
# So rare that only what is asked for happens.
RARE = Timing(refresh_s=600, least_s=0.05, timeout_s=0.5, look_s=0.01, jitter=0.0)


class Log:
    """What was logged, one line each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _log(self, event: str, **details: object) -> None:
        self.lines.append(f"{event} {details}")

    info = warning = error = _log

    def has(self, words: str) -> bool:
        return any(words in line for line in self.lines)


class Known:
    """A limiter that knows callers by a key set behind a URL."""

    def __init__(self, url: str, folder: Any, timing: Timing) -> None:
        self.log = Log()
        self.limiter = Limiter(clock=FakeClock(START_S))
        settings = read_settings({"jwt_jwks": url}, environ={}, folder=folder)
        self.files = IdentityFiles(self.limiter, settings, self.log)
        found = self.files.jwks_url
        assert found is not None
        self.files.jwks_url = JwksUrl(url, found._use, found._wants_keys, self.log, timing)
        self.files.load()

    def user(self, kid: str, name: str = "ours") -> str | None:
        token = good("ES256", private_key("p256", name), headers={"kid": kid})
        return self.limiter.identify(authorization=f"Bearer {token}").user


Starter = Callable[..., Known]


@pytest.fixture
def server() -> Iterator[JwksServer]:
    with JwksServer(text(jwks(OLD))) as server:
        yield server


@pytest.fixture
def known(server: JwksServer, tmp_path: Any) -> Iterator[Starter]:
    made: list[Known] = []

    def starter(timing: Timing = QUICK, url: str | None = None) -> Known:
        made.append(Known(url or server.url, tmp_path, timing))
        return made[-1]

    yield starter
    for one in made:
        one.files.stop()
        assert one.files.jwks_url is not None
        one.files.jwks_url._thread.join(PATIENCE_S)


def test_the_keys_are_there_when_the_node_starts(known: Starter, server: JwksServer) -> None:
    assert known(RARE).user("old") == "admin"
    assert server.asked == 1


def test_a_new_key_is_fetched_when_a_token_names_it(known: Starter, server: JwksServer) -> None:
    node = known(RARE)
    server.answer = text(jwks(NEW, OLD))
    eventually(lambda: node.user("new", "next") == "admin")
    assert node.user("old") == "admin"
    assert server.asked == 2


def test_a_key_that_was_taken_away_is_forgotten(known: Starter, server: JwksServer) -> None:
    node = known()
    assert node.user("old") == "admin"
    server.answer = text(jwks(NEW))
    eventually(lambda: node.user("old") is None)
    assert node.user("new", "next") == "admin"


def test_made_up_key_ids_do_not_drive_us(known: Starter, server: JwksServer) -> None:
    timing = Timing(refresh_s=600, least_s=600, timeout_s=5, look_s=0.001, jitter=0.0)
    node = known(timing)
    for nth in range(200):
        assert node.user(f"made up {nth}") is None
    time.sleep(0.2)
    assert server.asked == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (text("gone", 500), "answered 500"),
        (text("", 204), "is not a key set"),
        (text("<html>hello</html>"), "is not a key set"),
        (text('{"keys":[],"keys":[]}'), "is not a key set"),
        (text('{"keys":[{"kty":"oct","k":"AAAA"}]}'), "files only"),
        (text(jwks(*[OLD] * 101)), "at most 100"),
        (text('{"keys":[]}' + " " * BYTES_MAX), "more than 1024 KiB"),
        (redirect("file:///etc/passwd"), "answered 302"),
        (redirect("https://127.0.0.1:1/"), "another scheme"),
        (lambda handler: handler.wfile.write(b"\x00\xff\r\n"), "cannot be fetched"),
        (nothing, "cannot be fetched"),
    ],
    ids=["500", "204", "html", "twice", "secret", "many", "large", "file", "https", "garbage", "nothing"],
)
def test_a_set_that_is_of_no_use_leaves_the_old_keys(
    known: Starter, server: JwksServer, answer: Any, words: str
) -> None:
    node = known()
    server.answer = answer
    eventually(lambda: node.log.has(words))
    assert node.user("old") == "admin"
    server.answer = text(jwks(NEW, OLD))
    eventually(lambda: node.user("new", "next") == "admin")


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_server_that_hangs_holds_up_neither_the_start_nor_the_keys(
    known: Starter, server: JwksServer, how: str
) -> None:
    server.answer = getattr(server, how)
    node = known()
    assert node.user("old") is None
    eventually(lambda: node.log.has("did not answer within 0.5 s"))
    server.answer = text(jwks(OLD))
    eventually(lambda: node.user("old") == "admin")


def test_a_server_that_is_away_is_asked_ever_more_rarely(known: Starter, server: JwksServer) -> None:
    server.answer = text("", 503)
    node = known(Timing(refresh_s=10_000, least_s=0.02, timeout_s=5, look_s=0.001, jitter=0.0))
    found = node.files.jwks_url
    assert found is not None
    waits = []
    for asked in (2, 3, 4):
        eventually(lambda: server.asked >= asked)  # noqa: B023
        waits.append(found._due_s())
    assert waits == sorted(waits)
    assert waits[-1] >= 0.02 * 2**2
    found._failures = 50
    assert found._due_s() == 10_000


def test_redirects_to_the_same_scheme_are_followed_but_not_for_ever(server: JwksServer) -> None:
    with JwksServer(redirect(server.url)) as first:
        assert fetch(first.url, PATIENCE_S) == jwks(OLD)
        first.answer = redirect(first.url)
        with pytest.raises(FetchError):
            fetch(first.url, PATIENCE_S)
        assert first.asked < 20


def test_the_same_set_again_changes_nothing(known: Starter, server: JwksServer) -> None:
    node = known(Timing(refresh_s=0.05, least_s=0.05, timeout_s=5, look_s=0.01, jitter=0.0))
    before = node.files._tokens
    eventually(lambda: server.asked >= 4)
    assert node.files._tokens is before


def test_a_url_without_tls_is_warned_about_unless_it_is_here(known: Starter, server: JwksServer) -> None:
    assert not known(RARE).log.has("without TLS")
    url = "http://headgate.invalid/jwks.json"
    assert known(QUICK, url).log.has("without TLS")


def test_a_password_in_the_url_is_not_told(known: Starter, server: JwksServer) -> None:
    server.answer = text("", 500)
    node = known(QUICK, server.url.replace("127.0.0.1", "user:hunter2@127.0.0.1"))
    eventually(lambda: node.log.has("/jwks.json"))
    assert not node.log.has("hunter2")


def test_a_start_without_a_usable_way_is_told(tmp_path: Any) -> None:
    settings = read_settings({"jwt_jwks": str(tmp_path / "no.json")}, environ={}, folder=tmp_path)
    with pytest.raises(ConfigError, match=r"no\.json: cannot be read"):
        IdentityFiles(Limiter(), settings, Log()).load()
