"""Requests handed to a web application without a server: what is timed is the application, and what limits it.

A server's own work (sockets, parsing) would be the same for everybody and would hide the difference.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from time import process_time_ns
from typing import Any

from bench.rule_sets import PATH

USERS = 1_000
ORGS = 50
OK = 200

Scope = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Head = tuple[list[tuple[bytes, bytes]], tuple[str, int]]

_EMPTY_BODY: Message = {"type": "http.request", "body": b"", "more_body": False}


class WrongAnswer(RuntimeError):
    """A request was not answered with 200: whatever took place of the answer would be timed instead."""


def _address(number: int) -> str:
    return f"198.51.{number // 250}.{number % 250 + 1}"


def api_key(user: int) -> bytes:
    return b"key-of-%d" % user


def heads(count: int) -> list[Head]:
    """Headers and client of so many requests: a few as browsers send them, and who is asking: an API key, and for
    those who read it themselves, the user and the org."""
    common = [
        (b"host", b"api.example.com"),
        (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"gzip, deflate, br"),
    ]
    return [
        (
            [
                *common,
                (b"x-api-key", api_key(number % USERS)),
                (b"x-user", b"u%d" % (number % USERS)),
                (b"x-org", b"o%d" % (number % ORGS)),
            ],
            (_address(number % USERS), 50_000 + number % 1_000),
        )
        for number in range(count)
    ]


def _scope(head: Head, path: str = PATH) -> Scope:
    """A new one for every request, as servers make them: applications write into it."""
    headers, client = head
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": client,
        "scheme": "http",
        "method": "GET",
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "state": {},
    }


async def _receive() -> Message:
    return _EMPTY_BODY


async def answered(app: Asgi, head: Head, path: str = PATH) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers of one answer."""
    status, headers = 0, {}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], dict(message["headers"])

    await app(_scope(head, path), _receive, send)
    return status, headers


async def ask(app: Asgi, head: Head) -> dict[bytes, bytes]:
    """The headers of an answer that must be good."""
    status, headers = await answered(app, head)
    if status != OK:
        raise WrongAnswer(f"{PATH} was answered with {status}")
    return headers


async def _ask_all(app: Asgi, pile: Iterator[Head]) -> None:
    status = 0

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    for head in pile:
        await app(_scope(head), _receive, send)
        if status != OK:
            raise WrongAnswer(f"{PATH} was answered with {status}")


def asgi_cpu_us(runner: asyncio.Runner, app: Asgi, requests: Sequence[Head], concurrent: int) -> float:
    """Processor time of the whole process for each request, so many of them under way at any time."""

    async def play() -> int:
        pile = iter(requests)
        start = process_time_ns()
        await asyncio.gather(*(_ask_all(app, pile) for _ in range(concurrent)))
        return process_time_ns() - start

    return runner.run(play()) / len(requests) / 1_000


async def steady_us(app: Asgi, requests: Sequence[Head], clients: int, rate_per_s: int) -> list[float]:
    """Requests of clients that each keep to their own pace: how long after it was due each was answered, so that a
    pause counts for all who would have come meanwhile."""
    took_us: list[float] = []
    clock = asyncio.get_running_loop().time

    async def client(number: int) -> None:
        for turn in range(number, len(requests), clients):
            due_s = start_s + turn / rate_per_s
            await asyncio.sleep(due_s - clock())
            await ask(app, requests[turn])
            took_us.append((clock() - due_s) * 1e6)

    start_s = clock()
    await asyncio.gather(*map(client, range(clients)))
    return took_us


def environ(head: Head, path: str = PATH) -> dict[str, Any]:
    headers, (address, port) = head
    named = {f"HTTP_{name.decode().upper().replace('-', '_')}": value.decode() for name, value in headers}
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "RAW_URI": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": address,
        "REMOTE_PORT": str(port),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **named,
    }


def wsgi_cpu_us(app: Wsgi, requests: Sequence[Head]) -> float:
    """Processor time for each request, one after the other; making the environ is a server's work and not timed."""
    status = ""

    def start_response(line: str, *_: Any) -> None:
        nonlocal status
        status = line

    environs = [environ(head) for head in requests]
    start = process_time_ns()
    for one in environs:
        answer = app(one, start_response)
        for _ in answer:
            pass
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        if status != "200 OK":
            raise WrongAnswer(f"{PATH} was answered with {status!r}")
    return (process_time_ns() - start) / len(requests) / 1_000


def wsgi_headers(app: Wsgi, head: Head) -> dict[str, str]:
    """The headers of one answer."""
    return wsgi_answered(app, environ(head))[1]


def wsgi_answered(app: Wsgi, one: dict[str, Any]) -> tuple[int, dict[str, str]]:
    """Status and headers of one answer, whose body is read to its end as servers do."""
    status, given = 0, dict[str, str]()

    def start_response(line: str, headers: list[tuple[str, str]], *_: Any) -> None:
        nonlocal status, given
        status, given = int(line.split()[0]), dict(headers)

    answer = app(one, start_response)
    for _ in answer:
        pass
    close = getattr(answer, "close", None)
    if close is not None:
        close()
    return status, given
