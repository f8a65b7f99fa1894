"""`/feed/v1`: deltas and snapshots for nodes that ask over HTTP, and their heartbeats.

Nodes show a token made from the feed key, which they have anyway to verify what they are told. A node waiting for the
next delta holds no thread.
"""

from __future__ import annotations

import asyncio
import hmac
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from headgate.control.api.admission import address_of, bearer, unauthorised
from headgate.control.api.call import Inside, received
from headgate.control.api.door import trace_of
from headgate.control.api.problems import Problem
from headgate.control.api.services import FeedSource
from headgate.control.api.streams import file_streamed
from headgate.control.api.strict_json import read_json
from headgate.control.tokens import Refusal
from headgate.feed import Position
from headgate.feed.codec import feed_token

router = APIRouter(prefix="/feed/v1", tags=["feed"], include_in_schema=False)

WAIT_S_MAX = 25
AGE_S_MAX = 2**31
HEARTBEAT_BYTES_MAX = 256 * 1024
RAW = "application/octet-stream"


def _node(request: Request) -> Inside:
    """On the event loop: no database is asked for a node's credentials."""
    inside: Inside = request.app.state.inside
    key, given = inside.services.feed_key, bearer(request.scope)
    if key is None:
        raise Problem(404, "this control plane has no HTTP feed: it has no feed_key")
    if given is not None and hmac.compare_digest(given.encode(), feed_token(key).encode()):
        if inside.services.feed is None:
            raise Problem(404, "this control plane has no HTTP feed")
        return inside
    address = address_of(request)
    inside.limits.check_address(address)
    inside.limits.count_failure(address)
    refusal = Refusal.MISSING if given is None else Refusal.UNKNOWN
    trace_of(request.scope).refusal = f"feed: {refusal.value}"
    raise unauthorised(refusal)


async def _node_on_loop(request: Request) -> Inside:
    return _node(request)


Node = Annotated[Inside, Depends(_node_on_loop)]


@router.get("/deltas")
async def deltas(
    inside: Node,
    since: Annotated[str, Query(pattern=r"^\d{1,18}\.\d{1,15}$")],
    wait: Annotated[float, Query(ge=0, le=WAIT_S_MAX)] = 20,
) -> Response:
    """200 with a delta, 204 when nothing is new, 410 when only the snapshot helps."""
    feed = _source(inside)
    position = Position.parse(since)
    loop = asyncio.get_running_loop()
    ends = loop.time() + wait
    moved = asyncio.Event()
    unsubscribe = feed.subscribe(lambda _: _wake(loop, moved))
    try:
        while True:
            moved.clear()
            found = await _look(inside, feed, position)
            if isinstance(found, bytes):
                return Response(found, 200, {"Cache-Control": "no-store"}, RAW)
            if found is not None:
                raise Problem(410, "there is no way from there by deltas; take the snapshot")
            left = ends - loop.time()
            if left <= 0:
                # As old as the database's last word: while that is away, an answer proves nothing.
                return Response(status_code=204, headers={"Age": str(int(min(feed.age_s, AGE_S_MAX)))})
            await _until(moved, left)
    finally:
        unsubscribe()


@router.get("/snapshot")
async def snapshot(inside: Node) -> Response:
    file, _ = await inside.turns.snapshots.run(_source(inside).open_snapshot)
    return file_streamed(file, RAW)


@router.post("/heartbeat", status_code=204)
async def heartbeat(inside: Node, request: Request) -> Response:
    beat: Any = read_json(await _body(request))
    if not isinstance(beat, dict):
        raise Problem(422, "a heartbeat is a JSON object")
    if inside.services.fleet is not None:
        await inside.turns.nodes.run(partial(inside.services.fleet.beat, beat))
    return Response(status_code=204)


async def _body(request: Request) -> bytes:
    raw, more = b"", True
    while more:
        message = await received(request)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        raw, more = raw + message.get("body", b""), message.get("more_body", False)
        if len(raw) > HEARTBEAT_BYTES_MAX:
            raise Problem(413, f"a heartbeat is at most {HEARTBEAT_BYTES_MAX // 1024} KiB")
    return raw


def _source(inside: Inside) -> FeedSource:
    assert inside.services.feed is not None, "checked with the credentials"
    return inside.services.feed


async def _look(inside: Inside, feed: FeedSource, since: Position) -> object:
    """What follows `since`. Nodes come by the hundred and want the same: one thread looks for all of them, and none
    where nothing is new."""
    head = feed.position
    if head == since:
        return None
    wanted = (since, head)
    look = inside.looks.get(wanted)
    if look is None:
        look = inside.looks[wanted] = asyncio.ensure_future(inside.turns.nodes.run(partial(feed.deltas, since, 0.0)))
        look.add_done_callback(lambda done: _looked(inside, wanted, done))
    # Whoever goes away takes nobody else's look along.
    return await asyncio.shield(look)


def _looked(inside: Inside, wanted: object, done: asyncio.Future[object]) -> None:
    inside.looks.pop(wanted, None)
    # Should nobody be there any more to be told of a failure, asyncio need not be.
    if not done.cancelled():
        done.exception()


def _wake(loop: asyncio.AbstractEventLoop, moved: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(moved.set)


async def _until(moved: asyncio.Event, left_s: float) -> None:
    try:
        async with asyncio.timeout(left_s):
            await moved.wait()
    except TimeoutError:
        pass
