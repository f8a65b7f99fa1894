"""Where Kong's routes are, for rules: which requests they share, and which of them Kong would choose.

Kong finds one route for a request and then asks which plugins it has. Rules have no such step, so a route that lies
within another's paths must stand above it: each place has a height, and rules of a higher place win.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.errors import ConfigError
from headgate.importing.kong_file import Route

# A rule's lists may combine to 256 cases: two patterns a path, and at most nine methods.
PATHS_MAX = 8
# Pairs of places that share requests: past this a file is no longer read in seconds.
PAIRS_MAX = 200_000


@dataclass(eq=False, slots=True)
class Place:
    """Some paths of one route."""

    route: Route
    paths: tuple[str, ...]
    nth: int
    height: int = 0
    near: list[Place] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, tuple[bool, ...], int, int]:
        """What Kong tries first is greater: more kinds of things tested, a longer path, the earlier route."""
        longest = max((len(path) for path in self.paths), default=0)
        return sum(self.route.kinds), self.route.kinds, longest, -self.nth

    @property
    def match(self) -> dict[str, Any]:
        patterns = [] if "" in self.paths else [text for path in self.paths for text in (path, f"{path}/*")]
        return {
            **({"endpoint": patterns} if patterns else {}),
            **({"method": list(self.route.methods)} if self.route.methods else {}),
        }

    def has(self, path: str) -> bool:
        return not self.paths or any(is_within(path, prefix) for prefix in self.paths)


def is_within(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def places(routes: Iterable[Route], rules_of: Callable[[Route], tuple[object, ...]]) -> list[Place]:
    """Every route's places, with their heights. A route that shares no request with another is one place; else each of
    its paths is, since another route may lie above one and below the next. Routes with the same rules need not be told
    apart."""
    single = [
        Place(route, (path,) if route.paths else (), nth)
        for nth, route in enumerate(routes)
        for path in route.paths or ("",)
    ]
    _find_near(single)
    crowded = {place.route.name for place in single if place.near}
    found = [place for place in single if place.route.name in crowded]
    found += _merged(place for place in single if place.route.name not in crowded)
    found.sort(key=lambda place: place.order)
    for place in found:
        own = rules_of(place.route)
        below = [q for q in place.near if q.order < place.order and rules_of(q.route) != own]
        heights = [q.height for q in below if q.height or rules_of(q.route)]
        place.height = 1 + max(heights) if heights else 0
    return sorted(found, key=lambda place: (place.nth, place.paths))


def _find_near(single: list[Place]) -> None:
    """Each place learns of those of other routes that share requests with it: one path is the other's beginning."""
    at: dict[str, list[Place]] = defaultdict(list)
    for place in single:
        at[_path(place)].append(place)
    pairs = 0
    for place in single:
        for prefix in _prefixes(_path(place)):
            for other in at.get(prefix, ()):
                if other.route is not place.route and _meet(place.route.methods, other.route.methods):
                    pairs += 1
                    if pairs > PAIRS_MAX:
                        what = f"more than {PAIRS_MAX:,} pairs of routes share requests"
                        raise ConfigError(f"{what}; import fewer at a time")
                    place.near.append(other)
                    if prefix != _path(place):
                        other.near.append(place)


def _merged(single: Iterable[Place]) -> Iterator[Place]:
    by_route: dict[str, list[Place]] = defaultdict(list)
    for place in single:
        by_route[place.route.name].append(place)
    for members in by_route.values():
        paths = [path for place in members for path in place.paths]
        for begin in range(0, max(len(paths), 1), PATHS_MAX):
            yield Place(members[0].route, tuple(paths[begin : begin + PATHS_MAX]), members[0].nth)


def _path(place: Place) -> str:
    return place.paths[0] if place.paths else ""


def _prefixes(path: str) -> Iterator[str]:
    yield ""
    at = path.find("/", 1)
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)
    if path:
        yield path


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return not one or not other or bool(set(one) & set(other))
