"""`headgate fleet`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.asking import Asked, asking
from headgate.cli.control_errors import ControlRefused, ControlUnreachable
from headgate.cli.errors import EXIT_REFUSED
from headgate.cli.shown import text

if TYPE_CHECKING:
    from rich.console import Console

WATCH_EVERY_S = 2.0


def _fleet(
    asked: Asked,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 seconds, until Ctrl-C")] = False,
) -> None:
    """Show the nodes: which version each enforces, and who is behind. Exit code 1 if a live node is behind or a region
    cannot be published to.

    \b
    Example:
      headgate fleet
    """
    if watch:
        _watch(asked)
        return
    told = asked.control.get("/fleet").body
    if asked.as_json:
        typer.echo(json.dumps(told, indent=2))
    else:
        _print(told)
    if not is_well(told):
        raise typer.Exit(EXIT_REFUSED)


def is_well(told: dict[str, Any]) -> bool:
    nodes = [node for node in told.get("nodes", []) if node.get("alive")]
    return not any(node.get("behind") for node in nodes) and not any(
        region.get("error") for region in told.get("regions", [])
    )


def _watch(asked: Asked) -> None:
    """The same again and again; each answer is one line for machines."""
    from headgate.cli.output import console

    out = console()
    try:
        while True:
            try:
                told = asked.control.get("/fleet").body
            except (ControlUnreachable, ControlRefused) as error:
                # Whoever watches wants to see it come back; what was asked wrongly stays wrong.
                if isinstance(error, ControlRefused) and error.is_mistake:
                    raise
                typer.echo(f"headgate: {error}", err=True)
            else:
                _show_again(told, out, as_json=asked.as_json)
            time.sleep(WATCH_EVERY_S)
    except KeyboardInterrupt:
        return


def _show_again(told: dict[str, Any], out: Console, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(told))
        return
    if out.is_terminal:
        out.clear()
    _print(told)


def _print(told: dict[str, Any]) -> None:
    from headgate.cli.output import console, table

    out = console()
    nodes = told.get("nodes", [])
    alive = [node for node in nodes if node.get("alive")]
    behind = sum(bool(node.get("behind")) for node in alive)
    head = str(told.get("head", "")).rpartition(".")[2]
    number = f"{len(alive)} live node{'' if len(alive) == 1 else 's'}"
    out.print(f"version {head}; {number}, {behind} behind", soft_wrap=True)
    if nodes:
        headings = ("node", "region", "version", "behind", "lag", "seen", "state", "store")
        out.print(table(headings, [node_row(node) for node in nodes]))
    regions = told.get("regions", [])
    if regions:
        rows = [
            (text(region.get("name")), _version(region.get("published")), text(region.get("error")))
            for region in regions
        ]
        out.print(table(("region", "published", "error"), rows))


def node_row(node: dict[str, Any]) -> tuple[str, ...]:
    lag = node.get("lag_ms")
    return (
        text(node.get("id")),
        text(node.get("region")),
        _version(node.get("position")),
        text(node.get("behind")),
        "" if lag is None else f"{lag:g} ms",
        text(node.get("seen")),
        _state(node),
        _store(node.get("store")),
    )


def _state(node: dict[str, Any]) -> str:
    if not node.get("alive"):
        return "not heard of"
    refused = node.get("refused") or []
    return f"refuses {len(refused)} entries" if refused else "alive"


def _store(store: object) -> str:
    shards = store.get("shards") if isinstance(store, dict) else None
    if not shards:
        return ""
    wrong = [f"{shard.get('name')} {shard.get('breaker')}" for shard in shards if shard.get("breaker") != "closed"]
    return ", ".join(wrong) or f"{len(shards)} well"


def _version(position: object) -> str:
    return text(position).rpartition(".")[2]


fleet = asking(_fleet)
