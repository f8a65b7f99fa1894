"""What limiters of web applications do when something goes wrong, beside ours: same application, same load.

`python -m tests.web.beside_peers` measures and writes what `tests.faults.page` puts on its page. What the peers do is
shown, never asserted; what ours does is asserted by the tests beside this file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import httpx

from tests.servers.server import Server
from tests.web.load import ask_at_once, keep_asking, statuses
from tests.web.peer_apps import OWN, SHARED
from tests.web.servers import WebServer

OUT = Path(__file__).with_name("out") / "peers.json"
ASYNC_APPS, FLASK_APPS = "tests.web.peer_apps", "tests.web.flask_peer_apps"
PAUSE_S = 0.4
SETTLE_S = 0.5
CLIENTS = 8
# Longer than anybody would wait; a hang is not waited for to its end, if it has one.
HANG_S_MAX = 25.0
HANG_REQUESTS = 10
GREEDY_REQUESTS = 100
OTHERS = ("bob", "carol", "dave")


@dataclass(frozen=True)
class Beside:
    """One line of the page."""

    what: str
    peer: str
    theirs: str
    ours: str


@contextlib.contextmanager
def serving(server: str, target: str, store: Server | None = None) -> Iterator[WebServer]:
    wanted = {"store": store.url} if store is not None else {}
    apps = FLASK_APPS if server == "gunicorn" else ASYNC_APPS
    with WebServer(server, f"{apps}:{target}()", wanted=wanted) as web:
        yield web


def _gap_s(web: WebServer) -> float:
    with web.client() as client:
        gap_s: float = client.get("/probe?reset=true").json()["gap_s"]
    return gap_s


def _pause(target: str) -> str:
    """How long the event loop stood still while the store did."""

    async def run(web: WebServer, store: Server) -> tuple[float, float, int]:
        over = asyncio.Event()
        load = asyncio.ensure_future(keep_asking(web, "/items", CLIENTS, over))
        await asyncio.sleep(SETTLE_S)
        await asyncio.to_thread(_gap_s, web)
        start_s = time.monotonic()
        store.stop_signal()
        await asyncio.sleep(PAUSE_S)
        store.cont()
        await asyncio.sleep(SETTLE_S)
        gap_s = await asyncio.to_thread(_gap_s, web)
        over.set()
        answers = [answer for answer in await load if answer.start_s + answer.took_s >= start_s]
        return gap_s, max(answer.took_s for answer in answers), sum(answer.status >= 500 for answer in answers)

    with Server() as store, serving("uvicorn", target, store) as web:
        gap_s, slowest_s, errors = asyncio.run(run(web, store))
    return f"{gap_s * 1e3:.0f} ms; slowest request {slowest_s * 1e3:.0f} ms, {errors} errors"


def _hang(target: str) -> str:
    """A few requests, one after the other, while the store hangs: the longest wait, and how many were answered."""
    with Server() as store, serving("gunicorn", target, store) as web:
        headers = {"x-user": "alice"}
        with httpx.Client(base_url=web.url, trust_env=False, timeout=HANG_S_MAX) as client:
            for _ in range(HANG_REQUESTS):
                client.get("/items", headers=headers).raise_for_status()
            store.stop_signal()
            end_s = time.monotonic() + HANG_S_MAX
            took_s: list[float] = []
            while len(took_s) < HANG_REQUESTS and (left_s := end_s - time.monotonic()) > 0:
                start_s = time.monotonic()
                try:
                    client.get("/items", headers=headers, timeout=left_s).raise_for_status()
                except httpx.ReadTimeout:
                    break
                took_s.append(time.monotonic() - start_s)
    answered = f"{len(took_s)} of {HANG_REQUESTS} answered within {HANG_S_MAX:.0f} s"
    return f"{answered}, the slowest after {_duration(max(took_s))}" if took_s else answered


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def _shared(server: str, target: str) -> str:
    """How many of the others' requests pass, all within their limits and the shared one, after one user's flood."""
    with serving(server, target) as web:
        greedy = statuses(ask_at_once(web, "/shared", ["alice"] * GREEDY_REQUESTS, concurrent=1))
        wanted = [user for user in OTHERS for _ in range(OWN)]
        others = statuses(ask_at_once(web, "/shared", wanted, concurrent=1))
    return f"{others[200]} of {len(wanted)} pass ({greedy[200]} of the flood did)"


def _each(target: str) -> str:
    """How many of a second client's requests pass, after the first has used up its own."""
    with serving("uvicorn", target) as web, web.client() as client:
        passed = [
            sum(client.get("/each", headers={"x-forwarded-for": address}).is_success for _ in range(OWN))
            for address in ("198.51.100.1", "198.51.100.2")
        ]
    return f"{passed[1]} of {OWN} pass"


def measure() -> Iterator[Beside]:
    slow = f"slowapi {version('slowapi')}"
    flask = f"Flask-Limiter {version('flask-limiter')}"
    redis = f"redis-py {version('redis')}"
    yield Beside(
        f"store pauses for {PAUSE_S * 1e3:.0f} ms under an async application: longest stall of its event loop",
        f"{slow}, {redis}",
        _pause("slowapi_app"),
        _pause("headgate_app"),
    )
    yield Beside(
        "store hangs under a Flask application, with counters in memory as fallback: a few requests",
        f"{flask}, {redis}",
        _hang("flask_limiter_app"),
        _hang("flask_headgate"),
    )
    limits = f"{OWN} a day each, {SHARED} for all"
    flood = f"{limits}: one user asks {GREEDY_REQUESTS} times, then three others ask for their {OWN}"
    yield Beside(flood, slow, _shared("uvicorn", "slowapi_app"), _shared("uvicorn", "headgate_app"))
    yield Beside(flood, flask, _shared("gunicorn", "flask_limiter_app"), _shared("gunicorn", "flask_headgate"))
    yield Beside(
        f"two clients behind one route, {OWN} a day each: the second, after the first has used up its own",
        f"fastapi-limiter {version('fastapi-limiter')}",
        _each("fastapi_limiter_app"),
        _each("headgate_app"),
    )


def main() -> None:
    rows = []
    for row in measure():
        rows.append(row)
        print(f"{row.what}\n    {row.peer}: {row.theirs}\n    headgate: {row.ours}", flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
