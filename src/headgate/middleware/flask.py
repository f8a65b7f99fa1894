"""An extension for Flask applications.

    headgate = Headgate(app, rules="rules.yaml")

    @app.post("/login")
    @headgate.limit("5/minute", by="ip")
    def login(): ...

Functions of the application's own (`identify`, `by`, `cost`) are called with `flask.request` if they take an argument.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import flask
from flask.views import View
from werkzeug.exceptions import HTTPException, default_exceptions

import headgate._core as _core
from headgate.errors import ConfigError, RateLimited
from headgate.limiter import Limiter
from headgate.middleware import workers
from headgate.middleware.gate import Gate, Refusal, Who
from headgate.middleware.options import NAMES, make_gate
from headgate.middleware.passage import Passage, of
from headgate.middleware.route_limit import RouteLimit
from headgate.middleware.wsgi import Environ, ExcInfo, Headers, StartResponse, decide, raw_path
from headgate.upkeep import Upkeep

__all__ = ["Headgate", "Limit", "Refused"]

F = TypeVar("F", bound=Callable[..., Any] | flask.Blueprint | flask.Flask)

_EXTENSION = "headgate"
_CONFIG_PREFIX = "HEADGATE_"
_EXEMPT = "__headgate_exempt__"


class Refused(HTTPException, RateLimited):
    """A rule or a limit refused. Handlers for it, for `RateLimited`, for its status or for `HTTPException` see it;
    where there is none, it is answered as every refusal is."""

    def __init__(self, passage: Passage, decision: _core.Decision) -> None:
        RateLimited.__init__(self, decision)
        self.passage = passage
        self.description = decision.body().get("error")
        self.response = None

    def get_response(self, *_: Any, **__: Any) -> flask.Response:
        return _response(self.passage.gate.refusal(self.passage.steps))

    def get_headers(self, *_: Any, **__: Any) -> list[tuple[str, str]]:
        return list(self.passage.headers().items())


class Headgate:
    """Decides about every request before its view is called.

    Takes what `headgate.middleware.wsgi` takes; what is not given is read from `app.config`: `HEADGATE_RULES`,
    `HEADGATE_STORE`, and so on for every option. A limiter that it makes itself belongs to one application.
    """

    def __init__(self, app: flask.Flask | None = None, limiter: Limiter | None = None, **options: Any) -> None:
        self._options = options if limiter is None else {"limiter": limiter, **options}
        self._exempt_blueprints: list[flask.Blueprint] = []
        self._has_exempt = False
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask) -> None:
        """Hooks that load a session or a user for `identify` are to be registered before this."""
        if _EXTENSION in app.extensions:
            raise ConfigError(f"{app.name}: has a Headgate already; one is enough, and its `limit` goes on any view")
        gate = _make_gate(app, self._options)
        app.extensions[_EXTENSION] = gate
        app.before_request(self._hook(gate))
        app.wsgi_app = _answering(app.wsgi_app, gate)  # type: ignore[method-assign]
        app.handle_user_exception = _counting(app.handle_user_exception)  # type: ignore[method-assign, assignment]
        if RateLimited not in app.error_handler_spec[None][None]:
            # So that a handler of every Exception does not make an error of a refusal.
            app.register_error_handler(RateLimited, lambda error: error.get_response())

    def limit(self, limit: int | str, window: float | str | None = None, **options: Any) -> Limit:
        """A limit for a view, a class of views, a blueprint or the application: `@headgate.limit("5/minute")`.

        limit    as `Limiter.check_limit` takes it: `"5/minute"`, `"100/second burst 200"`, or a number with `window`
        by       `user` (else the address), `ip`, `org`, `api_key`, `global`, several of them, or a function that gives
                 a text; where it gives None the address is counted
        cost     a whole number, or a function
        when     a function of the response (`.status`, `.headers`): where it gives false, what was spent is given back
        name     names the limit's counters: places that share a name share them
        algorithm, burst  as `Limiter.check_limit` takes them
        limiter  which counters; those of the extension unless said
        """
        for option in ("by", "cost"):
            if callable(function := options.get(option)):
                options[option] = _called_in_flask(function)
        return Limit(self, limit, window, **options)

    def exempt(self, view: F) -> F:
        """Leave a view, a class of views or a blueprint alone: no rules, no limits of its blueprint or application."""
        self._has_exempt = True
        if isinstance(view, flask.Blueprint):
            self._exempt_blueprints.append(view)
        else:
            setattr(view, _EXEMPT, True)
        return view

    def _hook(self, gate: Gate) -> Callable[[], flask.Response | None]:
        is_met = False

        def decide_first() -> flask.Response | None:
            nonlocal is_met
            if not is_met:
                is_met = True
                Upkeep.of(gate.limiter).start()
                workers.look(gate.limiter)
            return self._decide(gate)

        return decide_first

    def _decide(self, gate: Gate) -> flask.Response | None:
        environ = flask.request.environ
        path = raw_path(environ)
        outer = of(environ)
        is_done = outer is not None and outer.limiter is gate.limiter
        if is_done or (gate.has_exempt and gate.exempt.match(path)) or (self._has_exempt and self._is_exempt()):
            return None
        passage = decide(gate, environ, path)
        if isinstance(passage, Refusal):
            return _response(passage)
        environ["headgate"] = passage
        decision = passage.steps[0][0]
        if not decision.allowed:
            passage.settles = False
            raise refused(passage, decision)
        return None

    def _is_exempt(self) -> bool:
        if not self._has_exempt or flask.request.endpoint is None:
            return False
        app = flask.current_app
        view = app.view_functions.get(flask.request.endpoint)
        if getattr(view, _EXEMPT, False) or getattr(getattr(view, "view_class", None), _EXEMPT, False):
            return True
        return any(app.blueprints.get(name) in self._exempt_blueprints for name in flask.request.blueprints)


class Limit(RouteLimit):
    """What `Headgate.limit` makes: a decorator. Whatever it is put on shares one limit."""

    def __init__(self, headgate: Headgate, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._headgate = headgate

    def __call__(self, view: F) -> F:
        if isinstance(view, flask.Flask | flask.Blueprint):
            view.before_request(self._before_request)
            return view
        if inspect.isclass(view):
            if not issubclass(view, View):
                raise TypeError(f"limit: {view.__name__} is not a class of Flask views")
            view.decorators = [*view.decorators, self]
            return view

        is_async = inspect.iscoroutinefunction(view)

        @functools.wraps(view)
        def limited(*args: Any, **kwargs: Any) -> Any:
            self._step()
            call = flask.current_app.ensure_sync(view) if is_async else view
            return call(*args, **kwargs)

        return cast(F, limited)

    def _before_request(self) -> None:
        if not self._headgate._is_exempt():
            self._step()

    def _step(self) -> None:
        passage = _passage(flask.request.environ)
        try:
            self.check(passage, None)
        except RateLimited as error:
            raise refused(passage, error.decision) from None


def refused(passage: Passage, decision: _core.Decision) -> Refused:
    return _refused_class(decision.status)(passage, decision)


@functools.cache
def _refused_class(status: int) -> type[Refused]:
    """Flask finds the handler of a status by the class that stands for it. Rules ask for few statuses."""
    known = default_exceptions.get(status, HTTPException)
    bases = (Refused,) if issubclass(Refused, known) else (Refused, known)
    return cast(type[Refused], type("Refused", bases, {"code": status, "__module__": __name__}))


def _counting(handle: Callable[[Exception], Any]) -> Callable[[Exception], Any]:
    """A refusal that a view met by itself is a step like any other, whoever answers it."""

    def handle_user_exception(error: Exception) -> Any:
        if isinstance(error, RateLimited) and not isinstance(error, Refused):
            passage = _passage(flask.request.environ)
            passage.refused(error.decision)
            error = refused(passage, error.decision)
        return handle(error)

    return handle_user_exception


def _passage(environ: Environ) -> Passage:
    """The request's, begun here where the rules left it alone."""
    found = of(environ)
    if found is not None:
        return found
    gate = flask.current_app.extensions.get(_EXTENSION)
    if not isinstance(gate, Gate):
        raise ConfigError(f"{flask.current_app.name}: has limits and no Headgate; call init_app(app) when making it")
    identity = _core.identify_wsgi(gate.limiter, environ)
    facts = None if gate.identify is None else gate.own_facts(cast(Who, gate.identify(None)), lambda: identity.ip)
    passage = environ["headgate"] = Passage(gate, identity, facts)
    return passage


def _answering(app: Callable[..., Iterable[bytes]], gate: Gate) -> Callable[..., Iterable[bytes]]:
    """Headers go on what leaves the application, whoever made it. An `after_request` hook would cost more than the
    decision, and would not see every response."""

    def wsgi_app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        def start_with_headers(status: str, headers: Headers, exc_info: ExcInfo | None = None) -> Any:
            passage = of(environ)
            if passage is not None and passage.gate is gate:
                if passage.settles:
                    passage.settle(int(status[:3]), headers)
                headers = gate.answers.wsgi(headers, passage.steps)
            return start_response(status, headers) if exc_info is None else start_response(status, headers, exc_info)

        try:
            return app(environ, start_with_headers)
        except BaseException:
            passage = of(environ)
            if passage is not None and passage.gate is gate:
                passage.settle(500)
            raise

    return wsgi_app


def _response(refusal: Refusal) -> flask.Response:
    make = flask.current_app.response_class
    return make(refusal.body, refusal.status, refusal.headers, content_type=refusal.content_type)


def _make_gate(app: flask.Flask, given: dict[str, Any]) -> Gate:
    options = dict(given)
    for key in app.config:
        if not key.startswith(_CONFIG_PREFIX):
            continue
        option = key.removeprefix(_CONFIG_PREFIX).lower()
        if option not in NAMES:
            known = ", ".join(_CONFIG_PREFIX + name.upper() for name in NAMES)
            raise ConfigError(f"app.config[{key!r}]: not an option; expected any of {known}")
        options.setdefault(option, app.config[key])
    for option in ("identify", "cost"):
        if callable(options.get(option)):
            options[option] = _called_in_flask(options[option])
    return make_gate(options)


def _called_in_flask(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """As other extensions call such functions: without arguments. One that takes an argument is given the request."""
    kinds = inspect.Parameter
    positional = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL)
    takes_request = any(p.kind in positional for p in inspect.signature(function).parameters.values())

    @functools.wraps(function)
    def called(_: Any) -> Any:
        call = flask.current_app.ensure_sync(function)
        return call(flask.request) if takes_request else call()

    return called
