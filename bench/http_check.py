"""`/v1/check` over keep-alive connections: against the same server answering nothing, and against plain C."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.figure import Effort, Figure
from bench.http_servers import Running, c_server, headgate_server
from bench.player import SERVER_CORE, Player, play_in_turns
from bench.processes import compile_c, pin
from bench.rule_sets import HTTP_BODY

NAME = "http"
TARGET_CPU_TIMES = 1.6
TARGET_RATE_SHARE = 0.8
CONNECTIONS = 64
USERS = 4096


@contextmanager
def _contestants() -> Iterator[dict[str, Player]]:
    load = compile_c("load.c")
    with ExitStack() as stack:
        ours = stack.enter_context(headgate_server())
        plain_c = stack.enter_context(c_server())
        for server in (ours, plain_c):
            pin(server.pid, SERVER_CORE)

        def contestant(server: Running, path: str, body: str | None = None) -> Player:
            command = [str(load), "--port", str(server.port), "--connections", str(CONNECTIONS), "--path", path]
            return Player([*command, *(("--body", body, "--vary", str(USERS)) if body else ())], server.pid)

        yield {
            "check": contestant(ours, "/v1/check", HTTP_BODY),
            "empty": contestant(ours, "/healthz"),
            "empty POST": contestant(ours, "/v1/_empty", HTTP_BODY),
            "C check": contestant(plain_c, "/v1/check", HTTP_BODY),
            "C empty": contestant(plain_c, "/healthz"),
        }


def _played(effort: Effort) -> dict[str, Player]:
    requests = effort.pick(200_000, 10_000)
    with _contestants() as players:
        play_in_turns(players, requests, effort.rounds)
    return players


def run(effort: Effort) -> list[Figure]:
    players = _played(effort)
    check, empty, posted, plain_c = (players[name] for name in ("check", "empty", "empty POST", "C check"))

    def raw(*names: str) -> dict[str, float | str]:
        played = {field: value for name in names for field, value in players[name].raw(name).items()}
        return {**played, "connections": CONNECTIONS}

    return [
        Figure(
            NAME,
            "/v1/check, 5 limits: server CPU a request vs an empty 200",
            check.cpu_us / empty.cpu_us,
            "x",
            TARGET_CPU_TIMES,
            raw=raw("check", "empty"),
        ),
        Figure(
            NAME,
            "the same vs an empty 200 to the same body",
            check.cpu_us / posted.cpu_us,
            "x",
            TARGET_CPU_TIMES,
            raw=raw("empty POST"),
        ),
        Figure(
            NAME,
            "/v1/check, 5 limits: requests/s vs a minimal C epoll server",
            check.fastest.requests_per_s / plain_c.fastest.requests_per_s,
            "x",
            TARGET_RATE_SHARE,
            at_least=True,
            raw=raw("C check", "C empty"),
        ),
        Figure(NAME, "the same, by server CPU a request", plain_c.cpu_us / check.cpu_us, "x"),
    ]
