"""Who stands beside whom. A contestant that cannot be had here is left out, with the reason."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from bench.figure import Unavailable
from bench.gateway import upstream
from bench.side_by_side import gateways, libraries, rls, web
from bench.side_by_side.work import MEMORY, Contestant
from tests.servers.server import Server

# Some contestants, made when they are wanted; what they hold is given back with the stack.
Making = Callable[[Server, ExitStack], Iterable[Contestant]]


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    about: str
    makings: tuple[tuple[str, Making], ...]

    def made(self, store: Server, closing: ExitStack, left_out: dict[str, str]) -> Iterator[Contestant]:
        for named, making in self.makings:
            try:
                yield from making(store, closing)
            except Unavailable as reason:
                left_out[named] = str(reason)


def _libraries(is_shared: bool) -> tuple[tuple[str, Making], ...]:
    def url(store: Server) -> str:
        return store.url if is_shared else MEMORY

    return (
        ("Headgate", lambda store, _: [libraries.headgate(url(store))]),
        ("limits", lambda store, _: [libraries.limits_library(url(store), "fixed-window")]),
        ("limits", lambda store, _: [libraries.limits_library(url(store), "moving-window")]),
        ("throttled-py", lambda store, _: [libraries.throttled_library(url(store))]),
    )


def _web(is_shared: bool) -> tuple[tuple[str, Making], ...]:
    def url(store: Server) -> str:
        return store.url if is_shared else MEMORY

    return (
        ("FastAPI", lambda store, closing: web.asgi_contestants(url(store), closing)),
        ("Flask", lambda store, _: web.wsgi_contestants(url(store))),
    )


def _headgate_gateways(store: Server, closing: ExitStack) -> Iterable[Contestant]:
    return gateways.headgate_gateways(closing.enter_context(upstream()), store, closing)


def _nginx(_: Server, closing: ExitStack) -> Iterable[Contestant]:
    return [gateways.nginx_gateway(closing.enter_context(upstream()), closing)]


_CALLS = "A check is a function call, one after the other from one thread."
_APPS = (
    f"Requests are handed to the application by a function call; FastAPI has {web.CONCURRENT} under way at once, Flask "
    "one."
)
GROUPS = (
    Group("libraries", "Libraries, counters in memory", _CALLS, _libraries(False)),
    Group("libraries-valkey", "Libraries, counters in Valkey", _CALLS, _libraries(True)),
    Group("web", "Web applications, counters in memory", _APPS, _web(False)),
    Group("web-valkey", "Web applications, counters in Valkey", _APPS, _web(True)),
    Group(
        "servers",
        "Rate limit servers",
        "Asked by gRPC on 4 connections of 16 streams; server, store and load share the machine.",
        (
            ("Headgate", lambda store, closing: [rls.headgate_node(store.url, closing)]),
            ("envoyproxy/ratelimit", rls.envoyproxy_ratelimit),
            ("Headgate", lambda _, closing: [rls.headgate_node(MEMORY, closing)]),
            ("Gubernator", lambda _, closing: [rls.gubernator_server(closing)]),
        ),
    ),
    Group(
        "gateways",
        "Gateways",
        "One thread on one core, before the same small application, which has the other core with the load on 64 "
        "keep-alive connections. Callers are told apart by address.",
        (("Headgate", _headgate_gateways), ("nginx", _nginx)),
    ),
)
