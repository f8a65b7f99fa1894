"""Whether what a gateway passes on arrives anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.doctor.finding import Finding, problem, well
from headgate.doctor.gather.listeners import Door, dialled_place
from headgate.doctor.gather.upstreams import UpstreamFacts


def judge_upstreams(upstreams: Sequence[UpstreamFacts], doors: Sequence[Door]) -> Iterator[Finding]:
    own = {dialled_place(door.address): door for door in doors}
    for one in upstreams:
        where = f"{one.prefix} to {one.url}"
        if one.place in own:
            yield problem(
                "upstreams.loop",
                "The gateway would pass requests on to itself",
                f"{where}, which is {own[one.place].name}",
                "name the application's address in the setting `upstream`",
            )
        elif one.error is not None:
            yield problem(
                "upstreams.away",
                "An upstream cannot be reached",
                f"{where}: {one.error}",
                "start it, or correct the setting `upstream`: its requests are answered with 502",
            )
        else:
            yield well("upstreams.away", "An upstream is reached", where)
