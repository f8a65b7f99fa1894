"""What Prometheus is told of the control plane, written by hand: there is little of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headgate.control.api.call import Inside
from headgate.errors import StorageDown

Sample = tuple[dict[str, str], float]


def metrics_text(inside: Inside) -> str:
    return "".join(_lines(inside))


def _lines(inside: Inside) -> Iterator[str]:
    try:
        head = inside.head()
        up = 1
    except StorageDown:
        head, up = None, 0
    yield from _metric("headgate_control_database_up", "gauge", "Whether the database answers.", [({}, up)])
    if head is not None:
        yield from _metric("headgate_control_version", "gauge", "The newest version.", [({}, head.version)])
        yield from _metric("headgate_control_epoch", "gauge", "The epoch of the log, in µs.", [({}, head.epoch)])
    yield from _fleet(inside)
    calls, seconds = inside.counts.read()
    yield from _metric(
        "headgate_control_calls_total",
        "counter",
        "Calls of the admin API and the feed.",
        [
            ({"route": route, "method": method, "status": str(status)}, count)
            for (route, method, status), count in sorted(calls.items())
        ],
    )
    yield from _metric(
        "headgate_control_call_seconds_total",
        "counter",
        "Time from a call to the end of its answer.",
        [({"route": route}, took_s) for route, took_s in sorted(seconds.items())],
    )
    yield from _metric(
        "headgate_control_database_errors_total",
        "counter",
        "Calls that failed because the database did not answer.",
        [({}, inside.counts.storage_errors)],
    )
    yield from _metric(
        "headgate_control_calls_not_recorded_total",
        "counter",
        "Calls missing from the record of calls: too many at once, or the database was away too long.",
        [({}, inside.recorder.dropped)],
    )


def _fleet(inside: Inside) -> Iterator[str]:
    if inside.services.fleet is None:
        return
    try:
        status = inside.services.fleet.status()
    except StorageDown:
        return
    nodes: list[dict[str, Any]] = list(status.get("nodes", ()))
    alive = [node for node in nodes if node.get("alive")]
    behind = [node for node in alive if node.get("behind")]
    counts: list[Sample] = [({"state": "alive"}, len(alive)), ({"state": "behind"}, len(behind))]
    counts.append(({"state": "lost"}, len(nodes) - len(alive)))
    yield from _metric("headgate_control_nodes", "gauge", "Nodes heard of; those behind are alive too.", counts)
    regions: list[dict[str, Any]] = list(status.get("regions", ()))
    yield from _metric(
        "headgate_control_region_lag_seconds",
        "gauge",
        "How long the oldest change a region has not been told has waited; 0 when it has all.",
        [({"region": str(one["name"])}, float(one.get("lag_s") or 0)) for one in regions],
    )
    yield from _metric(
        "headgate_control_region_behind",
        "gauge",
        "How many versions a region has not been told.",
        [({"region": str(one["name"])}, float(one.get("behind") or 0)) for one in regions],
    )
    yield from _metric(
        "headgate_control_region_failing",
        "gauge",
        "Whether publishing to a region fails.",
        [({"region": str(one["name"])}, float(bool(one.get("error")))) for one in regions],
    )


def _metric(name: str, kind: str, told: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        number = str(int(value)) if float(value).is_integer() else f"{value:.6f}"
        yield f"{name}{{{shown}}} {number}\n" if shown else f"{name} {number}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
