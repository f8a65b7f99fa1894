"""`headgate status`."""

from __future__ import annotations

import http.client
import json
import socket
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headgate.cli.errors import EXIT_REFUSED
from headgate.dialling import dial
from headgate.setting_values import address as read_address

DEFAULT_NODE = "127.0.0.1:8080"
TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 1024 * 1024


def status(
    node: Annotated[str, typer.Option("--node", metavar="HOST:PORT", help="Where the node answers")] = DEFAULT_NODE,
    uds: Annotated[str | None, typer.Option("--uds", metavar="PATH", help="Its Unix socket instead")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """Show how a running node is: its rules, its store, and what happened to the store lately.
    Exit code 0: ready, and every shard of the store is asked. 1: not so, or not reachable.

    \b
    Example:
      headgate status --node 127.0.0.1:8080
    """
    try:
        told = _ask(node, uds)
    except (OSError, ValueError, http.client.HTTPException) as error:
        typer.echo(f"headgate status: {uds or node}: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    if as_json:
        typer.echo(json.dumps(told, indent=2))
    else:
        _show(told)
    if not _is_well(told):
        raise typer.Exit(EXIT_REFUSED)


def _ask(node: str, uds: str | None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
    connection.sock = _dial(node, uds)
    try:
        connection.request("GET", "/readyz")
        told = json.loads(connection.getresponse().read(ANSWER_BYTES_MAX))
    finally:
        connection.close()
    if not isinstance(told, dict) or "ready" not in told:
        raise ValueError("what answers there is not a Headgate node")
    return told


def _dial(node: str, uds: str | None) -> socket.socket:
    if uds is not None:
        return dial(uds, TIMEOUT_S)
    where = read_address(node)
    if where is None:
        raise ValueError("expected HOST:PORT")
    host, _, port = where.rpartition(":")
    return dial((host.strip("[]"), int(port)), TIMEOUT_S)


def _is_well(told: dict[str, Any]) -> bool:
    shards = (told.get("store") or {}).get("shards", [])
    return bool(told["ready"]) and all(shard["breaker"] == "closed" for shard in shards)


def _show(told: dict[str, Any]) -> None:
    from headgate.cli.output import console, table

    out = console()
    word = "ready" if told["ready"] else "NOT READY"
    out.print(f"{word}; {told['rules']} rules, version {told['rules_version']}", soft_wrap=True)
    if told.get("rules_error"):
        out.print(f"the last change of the rules was refused: {told['rules_error']}", soft_wrap=True)
    if told.get("identity_error"):
        out.print(f"who is known: the last change was refused: {told['identity_error']}", soft_wrap=True)
    store = told.get("store")
    if store is None:
        out.print("counters are in this node's memory")
        return
    out.print(f"{store['nodes']} live nodes; {store['bytes_per_subject'] or 'unknown'} bytes a subject in the store")
    headings = ("shard", "breaker", "connected", "calls", "requests", "errors", "late", "round trip")
    out.print(table(headings, [_shard_row(shard) for shard in store["shards"]]))
    if store["events"]:
        out.print(table(("when", "what", "shard", ""), [_event_row(event) for event in store["events"]]))


def _shard_row(shard: dict[str, Any]) -> tuple[str, ...]:
    names = ("name", "breaker", "connected", "calls", "requests", "errors", "timeouts")
    return (*(str(shard[name]) for name in names), f"{shard['round_trip_us']} µs")


def _event_row(event: dict[str, Any]) -> tuple[str, ...]:
    when = datetime.fromtimestamp(event["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    return when, event["kind"].replace("_", " "), event["shard"], event["detail"]
