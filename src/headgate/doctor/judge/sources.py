"""Whether a node would get its rules, and whether the fleet has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headgate.doctor.finding import Finding, note, problem, warning, well
from headgate.doctor.gather.sources import SourceFacts

NODES_SHOWN = 5


def judge_sources(sources: Sequence[SourceFacts], *, has_key: bool) -> Iterator[Finding]:
    if not has_key:
        yield problem(
            "sources.no_key",
            "Rules come from a control plane, and there is no key to know them by",
            "feed_key_file is not set",
            "give --feed-key-file, the same as the control plane's: a node does not start without it",
        )
    gone = [one for one in sources if one.error is not None]
    for one in gone:
        yield (problem if len(gone) == len(sources) else warning)(
            "sources.away",
            "A source of rules is not there",
            f"{one.shown}: {one.error}",
            "start it or correct the setting `rules`; without any, a node has only the rules it kept on disk",
        )
    if sources and not gone:
        yield well("sources.away", "Every source of rules is there", ", ".join(one.shown for one in sources))


def judge_fleet(told: Mapping[str, Any] | None, error: str | None) -> Iterator[Finding]:
    """`told` is what a control plane answered to `GET /fleet`."""
    if told is None:
        yield problem(
            "fleet.away",
            "The control plane cannot be asked",
            error or "no answer",
            "look at --control-url and the token; nodes go on with the rules they have",
        )
        return
    nodes = [node for node in told.get("nodes", []) if isinstance(node, dict)]
    alive = [node for node in nodes if node.get("alive")]
    behind = [node for node in alive if node.get("behind")]
    if behind:
        shown = ", ".join(f"{node.get('id')} by {node['behind']}" for node in behind[:NODES_SHOWN])
        yield warning(
            "fleet.behind",
            "Nodes enforce older rules than the control plane has",
            f"{len(behind)} of {len(alive)} live nodes: {shown}",
            "a moment after a change that is usual; if it stays, look at those nodes' sources and logs",
        )
    for region in told.get("regions", []):
        if region.get("error"):
            yield problem(
                "fleet.region",
                "Changes do not reach a region's broker",
                f"{region.get('name')}: {region['error']}",
                "look at that broker; its nodes take other sources if they have any",
            )
    refusing = [node for node in alive if node.get("refused")]
    if refusing:
        shown = ", ".join(str(node.get("id")) for node in refusing[:NODES_SHOWN])
        do = "`headgate fleet --json` names what; a node may be older than the control plane, or full"
        yield warning("fleet.refusing", "Nodes cannot take over something they were sent", shown, do)
    if not alive:
        yield note("fleet.empty", "No node follows the control plane", f"{len(nodes)} were heard of", "start one")
    elif not behind:
        yield well("fleet.behind", "Every live node has the newest rules", f"{len(alive)} nodes at {told.get('head')}")
