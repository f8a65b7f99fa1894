"""What may change under a running application is taken over: rules, keys, key sets."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from headgate import IdentityOptions, Limiter
from headgate.middleware.asgi import HeadgateMiddleware
from headgate.upkeep import Upkeep
from tests.integration.jwks_server import JwksServer, text
from tests.integration.tokens import SECRET, api_key_hash, jwk, jwks, private_key
from tests.servers.waiting import wait_for
from tests.web.asgi_client import client, statuses
from tests.web.test_asgi import hello

WAIT_S = 20.0
RULES = "rules:\n  - {name: each, by: ip, limit: %d/minute}\n"


async def lifespan_app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "lifespan":
        return await hello(scope, receive, send)
    for step in ("startup", "shutdown"):
        assert (await receive())["type"] == f"lifespan.{step}"
        await send({"type": f"lifespan.{step}.complete"})


def wait_until(look: Callable[[], bool]) -> None:
    """A change is looked for once a second; twenty times that."""
    wait_for("the change", look, WAIT_S)


class Lifespan:
    """What a server does with an application before and after its requests."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._to_app: asyncio.Queue[str] = asyncio.Queue()
        self._from_app: asyncio.Queue[str] = asyncio.Queue()

    async def __aenter__(self) -> None:
        async def receive() -> Any:
            return {"type": await self._to_app.get()}

        async def send(message: Any) -> None:
            await self._from_app.put(message["type"])

        self._task = asyncio.create_task(self._app({"type": "lifespan"}, receive, send))
        await self._say("startup")

    async def __aexit__(self, *_: object) -> None:
        await self._say("shutdown")
        await self._task

    async def _say(self, step: str) -> None:
        await self._to_app.put(f"lifespan.{step}")
        assert await self._from_app.get() == f"lifespan.{step}.complete"


class Started:
    """Threads of upkeep that were not there before; those of other tests may still be ending."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def threads(self) -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t.name == "headgate-upkeep" and t not in self._before]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES % 1)
    return path


def test_changed_rules_are_enforced_and_broken_ones_refused(rules: Path, caplog: pytest.LogCaptureFixture) -> None:
    limiter = Limiter(rules)
    app = HeadgateMiddleware(lifespan_app, limiter)
    caplog.set_level(logging.INFO, "headgate")

    async def live() -> None:
        started = Started()
        async with Lifespan(app):
            assert len(started.threads()) == 1
            async with client(app) as asking:
                assert [(await asking.get("/")).status_code for _ in range(2)] == [200, 429]
                rules.write_text(RULES % 3)
                await asyncio.to_thread(wait_until, lambda: "rules reloaded" in caplog.text)
                # What was used stays used.
                assert [(await asking.get("/")).status_code for _ in range(3)] == [200, 200, 429]
                rules.write_text("rules: [{name: each, by: ip, limit: often}]")
                await asyncio.to_thread(wait_until, lambda: "rules refused" in caplog.text)
                assert limiter.rule_count() == 1
        await asyncio.to_thread(wait_until, lambda: not started.threads())

    asyncio.run(live())
    assert "often" in caplog.text


def test_an_application_that_lives_again_is_looked_after_again(rules: Path) -> None:
    limiter = Limiter(rules=rules)
    app = HeadgateMiddleware(lifespan_app, limiter)

    async def lives() -> list[bool]:
        seen = []
        for _ in range(2):
            async with Lifespan(app):
                seen.append(Upkeep.of(limiter)._running is not None)
            seen.append(Upkeep.of(limiter)._running is not None)
        return seen

    assert asyncio.run(lives()) == [True, False, True, False]


def test_an_application_without_a_lifespan_is_looked_after_from_its_first_request(rules: Path) -> None:
    async def plain(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http", "knows no lifespan"
        await hello(scope, receive, send)

    limiter = Limiter(rules)
    app = HeadgateMiddleware(plain, limiter)

    async def none() -> None: ...

    with pytest.raises(AssertionError, match="knows no lifespan"):
        asyncio.run(app({"type": "lifespan"}, none, none))  # type: ignore[arg-type]
    assert statuses(app, "/", "/") == [200, 429]
    version = limiter.rules_version()
    rules.write_text(RULES % 5)
    wait_until(lambda: limiter.rules_version() > version)
    assert statuses(app, "/") == [200]
    Upkeep.of(limiter).stop()


def test_nothing_runs_where_nothing_can_change() -> None:
    started = Started()
    upkeep = Upkeep.of(Limiter([{"name": "each", "by": "ip", "limit": "1/minute"}]))
    upkeep.start()
    upkeep.wait_until_ready()
    assert started.threads() == []


def test_upkeep_does_not_keep_a_limiter_alive(rules: Path) -> None:
    started = Started()
    limiter = Limiter(rules)
    Upkeep.of(limiter).start()
    gone = weakref.ref(limiter)
    (thread,) = started.threads()
    del limiter
    wait_until(lambda: bool(gc.collect() + 1) and gone() is None)
    thread.join(10)
    assert not thread.is_alive()


def test_the_last_to_stop_it_ends_it(rules: Path) -> None:
    started = Started()
    limiter = Limiter(rules)
    first, second = Upkeep.of(limiter), Upkeep.of(limiter)
    assert first is second
    first.start()
    (thread,) = started.threads()
    second.start()
    first.stop()
    thread.join(0.1)
    assert thread.is_alive()
    second.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_changed_api_keys_are_taken_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = tmp_path / "keys.json"

    def write(name: str) -> None:
        keys.write_text(json.dumps({"keys": [{"id": name, "hash": api_key_hash(name), "user": name}]}))

    write("ada")
    limiter = Limiter(identity=IdentityOptions(api_keys=str(keys), api_key_secret=SECRET))
    app = HeadgateMiddleware(hello, limiter)
    assert statuses(app, "/", headers={"X-API-Key": "ada"}) == [200]
    assert statuses(app, "/", headers={"X-API-Key": "bob"}) == [401]
    write("bob")
    wait_until(lambda: limiter.identify(api_key="bob").user == "bob")
    assert statuses(app, "/", headers={"X-API-Key": "ada"}) == [401]
    keys.write_text("{")
    wait_until(lambda: "keys refused" in caplog.text)
    assert statuses(app, "/", headers={"X-API-Key": "bob"}) == [200]
    Upkeep.of(limiter).stop()


def test_a_key_set_behind_a_url_is_there_when_the_application_starts() -> None:
    token = jwt.encode({"sub": "ada", "exp": 4_000_000_000}, private_key("p256"), "ES256", {"kid": "k1"})
    with JwksServer(text(jwks(jwk("p256", kid="k1")))) as server:
        identity = IdentityOptions(jwt_jwks=server.url)
        limiter = Limiter([{"name": "each", "by": "user", "limit": "1/minute"}], identity=identity)
        app = HeadgateMiddleware(lifespan_app, limiter)
        bearer = {"Authorization": f"Bearer {token}"}
        assert limiter.identify(authorization=bearer["Authorization"]).error is not None

        async def live() -> list[int]:
            async with Lifespan(app), client(app) as asking:
                return [(await asking.get("/", headers=bearer)).status_code for _ in range(2)]

        assert asyncio.run(live()) == [200, 429]
        assert server.asked >= 1
