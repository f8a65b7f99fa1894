"""Middleware for ASGI applications: FastAPI, Starlette, Litestar, Quart, Django, or none of them.

app = HeadgateMiddleware(app, rules="rules.yaml")
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Unpack
from urllib.parse import quote

import headgate._core as _core
from headgate._core import AsgiSender, Decision, ask_asgi, ask_asgi_for
from headgate.errors import RateLimited
from headgate.limiter import Facts, Limiter
from headgate.middleware import frameworks, workers
from headgate.middleware.gate import GATE, Gate, Options, Refusal, Who, not_decidable, unauthorized
from headgate.middleware.passage import Passage, of
from headgate.middleware.views import ScopeRequest
from headgate.upkeep import Upkeep

Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_UNQUOTED = "/:@!$&'()*+,;=~"
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class HeadgateMiddleware:
    """Decides about every HTTP request before the application sees it. WebSockets pass untouched.

    limiter   a `headgate.Limiter`; or, to make one, `rules`, `store` and `identity` as `Limiter` takes them
    identify  the application's own way to know callers: a function, sync or async, of a `headgate.middleware.Request`.
              It gives a user's id, a dict of facts, or None for nobody. Without it, the limiter's `identity` decides
    cost      a whole number, or a function of the request
    exempt    paths that are left alone, as rules write endpoints: `/healthz`, `/static/*`
    when      a function of the response: where it gives false, what the request spent is given back
    headers   families of rate headers: `x-ratelimit`, `ietf`
    problem   refusals as RFC 9457 problem details
    jitter    the part of a wait by which `Retry-After` is spread
    """

    def __init__(self, app: App, limiter: Limiter | None = None, **options: Unpack[Options]) -> None:
        self.app = app
        self.gate = Gate(limiter, **options)
        self._upkeep = Upkeep.of(self.gate.limiter)
        self._here: tuple[asyncio.AbstractEventLoop, _core.Mailbox] | None = None
        self._is_shared = self.gate.limiter.is_shared
        self._is_met = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._pass_other(scope, receive, send)
        gate = self.gate
        if gate.has_exempt or "headgate" in scope or not self._is_met:
            self._meet(scope)
            if self._leaves_alone(scope):
                return await self.app(scope, receive, send)
        cost = gate.cost_of(ScopeRequest(scope)) if gate.has_cost_function else gate.cost
        who: Any = None
        if gate.identify is not None:
            who = gate.identify(ScopeRequest(scope))
            if who is not None and not isinstance(who, str | dict):
                who = await resolved(gate, who)
        here = self._here
        if self._is_shared and (here is None or here[0] is not asyncio.get_running_loop()):
            self._here = here = gate.limiter._here()
        answer: Any
        try:
            if gate.identify is None:
                identity, answer = ask_asgi(gate.limiter, scope, cost, here)
                if answer is None:
                    return await refuse(send, unauthorized(identity), [])
            else:
                identity, answer = ask_asgi_for(gate.limiter, scope, who, cost, here)
        except ValueError as error:
            return await refuse(send, not_decidable(error), [])
        except KeyError:
            # What it said is none of the facts; here it is told which.
            gate.checked(who)
            raise
        decision = answer if isinstance(answer, Decision) else await answer
        passage = Passage(gate, identity, who, decision)
        if not decision.allowed:
            if (outer := of(scope)) is not None:
                outer.give_back()
            return await self._refuse(passage, send)
        scope["headgate"] = passage
        sender = AsgiSender(gate.answers, passage, passage.steps, send)
        try:
            await self.app(scope, receive, sender)
        except RateLimited as refused:
            if sender.is_started:
                raise
            passage.refused(refused.decision)
            await self._refuse(passage, send)
        finally:
            # An application that ends without a response has failed.
            if passage.settles:
                passage.settle(500)

    def _leaves_alone(self, scope: Scope) -> bool:
        outer = of(scope)
        # Wrapped twice by mistake: once is enough.
        if outer is not None and outer.limiter is self.gate.limiter:
            return True
        if self.gate.is_exempt(raw_path(scope).decode("latin-1")):
            scope[GATE] = self.gate
            return True
        return False

    async def _refuse(self, passage: Passage, send: Send) -> None:
        steps = passage.steps
        await refuse(send, self.gate.refusal(steps), self.gate.answers.asgi((), steps))

    async def _pass_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            self._meet(scope)
            scope[GATE] = self.gate
            await self.app(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What runs behind starts before the application does and ends after it."""
        is_up = False

        def send_and_see(message: Message) -> Awaitable[None]:
            nonlocal is_up
            is_up = is_up or message["type"] == "lifespan.startup.complete"
            return send(message)

        self._meet(scope)
        await asyncio.to_thread(self._upkeep.wait_until_ready)
        try:
            await self.app(scope, receive, send_and_see)
        finally:
            # Many applications know no lifespan and fail here at once; they are served all the same.
            if is_up:
                self._upkeep.stop()
                # An application may live again in the same process, as under test clients.
                self._is_met = False

    def _meet(self, scope: Scope) -> None:
        """At the first sight of the application's process."""
        if self._is_met:
            return
        self._is_met = True
        self._upkeep.start()
        workers.look(self.gate.limiter)
        frameworks.meet(scope.get("app"))


async def resolved(gate: Gate, who: Any) -> Who:
    """What the application's own function said, be it async."""
    return gate.checked(await who if inspect.isawaitable(who) else who)


async def own_facts(gate: Gate, scope: Scope) -> Facts:
    """Who is asking, by the application's own function."""
    assert gate.identify is not None
    who = await resolved(gate, gate.identify(ScopeRequest(scope)))
    return gate.own_facts(who, lambda: _core.identify_asgi(gate.limiter, scope).ip)


def raw_path(scope: Scope) -> bytes:
    path, root = _path_alone(scope), scope.get("root_path")
    if not root or scope["path"] == root or scope["path"].startswith(f"{root}/"):
        return path
    # Frameworks serve a path without its root by the same route.
    return quote(root, safe=_UNQUOTED).encode() + path


def _path_alone(scope: Scope) -> bytes:
    """The path as it came, since decoding it twice would make another of it."""
    raw = scope.get("raw_path")
    if raw is None:
        return quote(scope["path"], safe=_UNQUOTED).encode()
    return bytes(raw.partition(b"?")[0]) if b"?" in raw else raw


async def refuse(send: Send, refusal: Refusal, headers: list[tuple[bytes, bytes]]) -> None:
    length = str(len(refusal.body)).encode()
    own = [(name.lower().encode(), value.encode()) for name, value in refusal.headers]
    told = [(b"content-type", refusal.content_type.encode()), (b"content-length", length), *own, *headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": told})
    await send({"type": "http.response.body", "body": refusal.body})
