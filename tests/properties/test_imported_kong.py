"""Any set of routes and instances of the plugin decides, once imported, as Kong would: one instance for a request."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate import Limiter
from headgate.importing.kong import read_kong
from headgate.testing import FakeClock
from tests.model.kong import PRECEDENCE, Kong, Plugin, Request, Route
from tests.properties.strategies import examples

START_S = 1_760_000_000
SERVICES = ["s1", "s2", None]
PATHS = ["/", "/a", "/a/b", "/c"]
METHODS = ["GET", "POST"]
CONSUMERS = ["bob", "eve"]
GROUPS = {"bob": "gold"}
ROUTES = ["r0", "r1", "r2"]
REACHED = {"/": "/zzz", "/a": "/a/q", "/a/b": "/a/b", "/c": "/c/d/e"}


@st.composite
def routes(draw: st.DrawFn) -> list[Route]:
    return [
        Route(
            name,
            draw(st.sampled_from(SERVICES)),
            tuple(draw(st.lists(st.sampled_from(PATHS), max_size=2, unique=True))),
            tuple(draw(st.sampled_from([(), (), ("GET",), ("POST",)]))),
        )
        for name in ROUTES
    ]


names = {
    "route": st.sampled_from(ROUTES),
    "service": st.sampled_from(["s1", "s2"]),
    "consumer": st.sampled_from(CONSUMERS),
    "group": st.just("gold"),
}


@st.composite
def plugins(draw: st.DrawFn) -> Plugin:
    scope = tuple((name, draw(names[name])) for name in draw(st.sampled_from(PRECEDENCE)))
    limit_by = draw(st.sampled_from(["consumer", "ip", "service", "path"]))
    limits = draw(st.sampled_from([(("minute", 1),), (("minute", 2),), (("second", 1), ("minute", 2))]))
    return Plugin(scope, limit_by, limits, "/a/b" if limit_by == "path" else None)


requests = st.builds(
    Request,
    st.sampled_from(list(REACHED.values())),
    st.sampled_from(METHODS),
    st.sampled_from(["198.51.100.1", "198.51.100.2"]),
    st.sampled_from([None, *CONSUMERS]),
)


def written(found_routes: list[Route], found_plugins: list[Plugin]) -> dict[str, Any]:
    """As decK writes it: everything at the top, with references."""
    return {
        "_format_version": "3.0",
        "services": [{"name": "s1"}, {"name": "s2"}],
        "routes": [
            {
                "name": route.name,
                **({"service": route.service} if route.service else {}),
                **({"paths": list(route.paths)} if route.paths else {}),
                **({"methods": list(route.methods)} if route.methods else {}),
            }
            for route in found_routes
        ],
        "consumers": [
            {"username": name, **({"groups": [{"name": GROUPS[name]}]} if name in GROUPS else {})} for name in CONSUMERS
        ],
        "consumer_groups": [{"name": "gold"}],
        "plugins": [
            {
                "name": "rate-limiting",
                **{("consumer_group" if kind == "group" else kind): name for kind, name in plugin.scope},
                "config": {
                    "limit_by": plugin.limit_by,
                    **({"path": plugin.path} if plugin.path else {}),
                    **dict(plugin.limits),
                },
            }
            for plugin in found_plugins
        ],
    }


@examples(250)
@given(
    routes(),
    st.lists(plugins(), min_size=2, max_size=7, unique_by=lambda plugin: plugin.scope),
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 60]), requests), min_size=10, max_size=30),
)
def test_imported_plugins_decide_as_kong_does(
    found_routes: list[Route], found_plugins: list[Plugin], steps: list[tuple[int, Request]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kong.json"
        path.write_text(json.dumps(written(found_routes, found_plugins)))
        imported = read_kong([path])
    assert not [note for note in imported.notes if note.level == "cannot"]
    clock = FakeClock(START_S)
    limiter = Limiter(imported.document, clock=clock)
    theirs = Kong(found_routes, found_plugins, GROUPS)
    now = START_S
    for advance, request in steps:
        clock.advance(advance)
        now += advance
        if theirs.route(request) is None:
            continue
        ours = limiter.check(user=request.consumer, path=request.path, method=request.method, ip=request.ip)
        assert ours.allowed is theirs.check(request, now), (request, ours, imported.document)
