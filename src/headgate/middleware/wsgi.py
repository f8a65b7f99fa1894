"""Middleware for WSGI applications: Flask, Django, Pyramid, or none of them.

app = HeadgateMiddleware(app, rules="rules.yaml")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Any, Unpack
from urllib.parse import quote

import headgate._core as _core
from headgate.errors import RateLimited
from headgate.limiter import Facts, Limiter
from headgate.middleware import workers
from headgate.middleware.gate import Gate, Options, Refusal, not_decidable, unauthorized
from headgate.middleware.passage import Passage, of
from headgate.middleware.views import EnvironRequest
from headgate.upkeep import Upkeep

Environ = dict[str, Any]
Headers = list[tuple[str, str]]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
StartResponse = Callable[..., Callable[[bytes], object]]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class HeadgateMiddleware:
    """Decides about every request before the application sees it. Takes what `headgate.middleware.asgi` takes; its
    `identify` is not async."""

    def __init__(self, app: App, limiter: Limiter | None = None, **options: Unpack[Options]) -> None:
        self.app = app
        self.gate = Gate(limiter, **options)
        self._is_met = False

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not self._is_met:
            self._is_met = True
            Upkeep.of(self.gate.limiter).start()
            workers.look(self.gate.limiter)
        gate = self.gate
        path = raw_path(environ)
        outer = of(environ)
        if (gate.has_exempt and gate.exempt.match(path)) or (outer is not None and outer.limiter is gate.limiter):
            return self.app(environ, start_response)
        passage = decide(gate, environ, path)
        if isinstance(passage, Refusal):
            return refuse(start_response, passage, [])
        if not passage.steps[0][0].allowed:
            return _refuse_by(passage, start_response)
        environ["headgate"] = passage
        return self._pass(passage, environ, start_response)

    def _pass(self, passage: Passage, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        answers, is_started = self.gate.answers, False

        def start_with_headers(status: str, headers: Headers, exc_info: ExcInfo | None = None) -> Any:
            nonlocal is_started
            is_started = True
            if passage.settles:
                passage.settle(int(status[:3]), headers)
            told = answers.wsgi(headers, passage.steps)
            return start_response(status, told) if exc_info is None else start_response(status, told, exc_info)

        try:
            answer = self.app(environ, start_with_headers)
        except RateLimited as refused:
            if is_started:
                raise
            passage.refused(refused.decision)
            return _refuse_by(passage, start_response)
        except BaseException:
            passage.settle(500)
            raise
        return answer if is_started else _read_later(answer, passage, start_response, lambda: is_started)


def _read_later(
    answer: Iterable[bytes], passage: Passage, start_response: StartResponse, is_started: Callable[[], bool]
) -> Iterator[bytes]:
    """An application that does its work only when its answer is read, as generators do."""
    try:
        yield from answer
    except RateLimited as refused:
        if is_started():
            raise
        passage.refused(refused.decision)
        yield from _refuse_by(passage, start_response)
    except Exception:
        passage.settle(500)
        raise
    finally:
        close = getattr(answer, "close", None)
        if close is not None:
            close()


def decide(gate: Gate, environ: Environ, path: str) -> Passage | Refusal:
    """The first step of a request's passage: the rules."""
    limiter, method = gate.limiter, environ["REQUEST_METHOD"]
    cost = gate.cost if isinstance(gate.cost, int) else gate.cost_of(EnvironRequest(environ))
    identity: _core.Identity | None
    facts: Facts | None
    if gate.identify is None:
        identity = _core.identify_wsgi(limiter, environ)
        if identity.is_rejected:
            return unauthorized(identity)
        facts = None
        try:
            decision = _core.check_identified(limiter, identity, path, method, cost)
        except ValueError as error:
            return not_decidable(error)
    else:
        who: Any = gate.identify(EnvironRequest(environ))
        facts = gate.own_facts(who, lambda: _core.identify_wsgi(limiter, environ).ip)
        identity = None
        asked: Facts = {**facts, "path": path, "method": method, "cost": cost}
        try:
            decision = limiter.check(**asked)
        except ValueError as error:
            return not_decidable(error)
    return Passage(gate, identity, facts, decision)


def raw_path(environ: Environ) -> str:
    """The path that the application routes by, encoded again so that nothing is decoded twice. What some servers tell
    of how it came may be from before a rewrite."""
    path: str = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    if path.isascii() and "%" not in path and "?" not in path and "#" not in path:
        return path or "/"
    return quote(path.encode("latin-1", "replace"), safe="/:@!$&'()*+,;=~") or "/"


def refuse(start_response: StartResponse, refusal: Refusal, headers: Headers) -> Iterable[bytes]:
    told = [("Content-Type", refusal.content_type), ("Content-Length", str(len(refusal.body)))]
    told += [*refusal.headers, *headers]
    start_response(f"{refusal.status} {phrase(refusal.status)}", told)
    return [refusal.body]


def phrase(status: int) -> str:
    """What stands beside a status. Rules may ask for one that has no name."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"


def _refuse_by(passage: Passage, start_response: StartResponse) -> Iterable[bytes]:
    gate = passage.gate
    return refuse(start_response, gate.refusal(passage.steps), gate.answers.wsgi((), passage.steps))
