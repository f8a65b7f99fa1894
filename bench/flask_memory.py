"""The Flask extension against Flask-Limiter, counters in memory: one limit each, and five rules against one limit."""

import functools
from collections.abc import Callable

from bench.added_cpu import BARE, ROUND_REQUESTS, TARGET_PART, added_figure, best_cpu_us
from bench.asgi_apps import identity
from bench.figure import Effort, Figure
from bench.flask_apps import flask_bare, flask_headgate_decorated, flask_headgate_rules, flask_limiter
from bench.rule_sets import five_limit_rules
from bench.web_requests import Wsgi, heads, wsgi_cpu_us, wsgi_headers
from headgate import Limiter

NAME = "flask_memory"
DECORATED, RULES, PEER = "headgate decorator", "headgate rules", "Flask-Limiter"


def run(effort: Effort) -> list[Figure]:
    requests = heads(effort.pick(ROUND_REQUESTS, 64))

    def make() -> dict[str, Callable[[], float]]:
        apps: dict[str, Wsgi] = {
            BARE: flask_bare(),
            DECORATED: flask_headgate_decorated(),
            RULES: flask_headgate_rules(Limiter(five_limit_rules(), identity=identity())),
            PEER: flask_limiter(),
        }
        for name in (DECORATED, RULES):
            if "X-RateLimit-Limit" not in wsgi_headers(apps[name], requests[0]):
                raise RuntimeError(f"{name} limits nothing")
        return {name: functools.partial(wsgi_cpu_us, app, requests) for name, app in apps.items()}

    best_us = best_cpu_us(make, effort)
    names = {
        DECORATED: "Flask extension, memory, 1 limit and headers: added CPU vs Flask-Limiter, 1 limit",
        RULES: "Flask extension, memory, 5 rules and headers: added CPU vs Flask-Limiter, 1 limit",
    }
    return [added_figure(NAME, name, best_us, ours, PEER, TARGET_PART) for ours, name in names.items()]
