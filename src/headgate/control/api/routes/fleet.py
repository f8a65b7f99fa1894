"""`/fleet`: which nodes there are, and what they enforce."""

from __future__ import annotations

import functools
from typing import Annotated

from fastapi import Path, Query
from starlette.responses import Response

from headgate.control.api import described, models
from headgate.control.api.admission import Viewer
from headgate.control.api.answers import reply
from headgate.control.api.call import Call
from headgate.control.api.described import answers
from headgate.control.api.problems import Problem, unprocessable
from headgate.control.api.router import api_router
from headgate.control.api.services import FleetView
from headgate.feed import Position

router = api_router("fleet")

WAIT_S_MAX = 30
V = Annotated[
    str,
    Path(pattern=r"^\d{1,18}(\.\d{1,15})?$", description="A version, or a position: `epoch.version`.", examples=["12"]),
]


@router.get("/fleet", responses=answers({200: described.model(models.Fleet, "The fleet")}))
def show_fleet(call: Viewer) -> Response:
    """Every node that was heard of, how far behind it is, and how far each region has been told."""
    return reply(dict(_fleet(call).status()))


@router.get("/versions/{v}/fleet", responses=answers({200: described.model(models.Reached, "Who has it")}, 404))
async def version_fleet(
    call: Viewer,
    v: V,
    wait: Annotated[int, Query(ge=0, le=WAIT_S_MAX, description="Seconds to wait until all live nodes have it.")] = 0,
) -> Response:
    """Whether all live nodes enforce a version; answered as soon as they do, or when the time is over."""
    return await call.inside.turns.watchers.run(functools.partial(_reached, call, v, wait))


def _reached(call: Call, v: str, wait_s: int) -> Response:
    fleet = _fleet(call)
    with call.services.database.read() as tx:
        head = tx.head
    position = Position.parse(v) if "." in v else Position(head.epoch, int(v))
    if position > head:
        raise unprocessable(f"version {v} does not exist yet; the newest is {head}", ("path.v", "is not there yet"))
    return reply(dict(fleet.wait(position, float(wait_s))))


def _fleet(call: Call) -> FleetView:
    if call.services.fleet is None:
        raise Problem(503, "this control plane does not follow its fleet", headers={"Retry-After": "60"})
    return call.services.fleet
