"""A feed inside a program: the limiter of an application is one of the control plane's nodes."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import Limiter
from headgate.errors import ConfigError
from headgate.upkeep import Upkeep
from tests.feed.following import SOON_S
from tests.feed.toy_control import KEY, ToyControl, ToyFeed
from tests.servers.waiting import wait_for


@pytest.fixture
def control(tmp_path: Path) -> ToyControl:
    control = ToyControl(tmp_path / "control")
    control.rule("first")
    return control


@pytest.fixture
def feed(control: ToyControl) -> Iterator[ToyFeed]:
    with ToyFeed(control) as feed:
        yield feed


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("headgate-")]


def test_a_program_follows_a_control_plane_until_it_stops(control: ToyControl, feed: ToyFeed, tmp_path: Path) -> None:
    limiter = Limiter()
    upkeep = Upkeep.of(limiter)
    upkeep.follow(feed.url, key=KEY, snapshot=str(tmp_path / "kept.hgs"), node_id="app-1")
    upkeep.start()
    upkeep.wait_until_ready()
    assert limiter.rule_count() == 1
    control.rule("second")
    wait_for("the change", lambda: limiter.rule_count() == 2, SOON_S)
    wait_for("a heartbeat", lambda: any(beat["id"] == "app-1" for beat in feed.heartbeats()), SOON_S)
    upkeep.stop()
    wait_for("the threads' end", lambda: not threads(), SOON_S)
    feed.process.kill()
    again = Limiter()
    second = Upkeep.of(again)
    second.follow(feed.url, key=KEY, snapshot=str(tmp_path / "kept.hgs"))
    second.start()
    second.wait_until_ready()
    assert again.rule_count() == 2
    second.stop()


@pytest.mark.usefixtures("impatient")
def test_a_program_goes_on_without_rules_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    limiter = Limiter()
    upkeep = Upkeep.of(limiter)
    upkeep.follow("http://127.0.0.1:1", key=KEY)
    with caplog.at_level(logging.ERROR, "headgate"):
        upkeep.start()
        upkeep.wait_until_ready()
    upkeep.stop()
    assert limiter.check(user="1").allowed
    assert "no rules have come from the feed" in caplog.text
    assert "http://127.0.0.1:1: cannot be asked" in caplog.text


def test_a_feed_keeps_no_limiter_alive(feed: ToyFeed) -> None:
    limiter = Limiter()
    upkeep = Upkeep.of(limiter)
    upkeep.follow(feed.url, key=KEY)
    upkeep.start()
    upkeep.wait_until_ready()
    gone = weakref.ref(limiter)
    del limiter, upkeep
    gc.collect()

    def is_gone() -> bool:
        gc.collect()
        return gone() is None and not threads()

    wait_for("the limiter's end", is_gone, SOON_S, lambda: str(threads()))


@pytest.mark.parametrize(("urls", "key"), [("ftp://x", KEY), ("http://127.0.0.1:1", b"short")])
def test_what_can_never_work_is_refused_at_once(urls: str, key: bytes) -> None:
    with pytest.raises(ConfigError):
        Upkeep.of(Limiter()).follow(urls, key=key)
