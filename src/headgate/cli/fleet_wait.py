"""Waiting until the live nodes enforce a version."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from headgate.cli.control_client import path_of

if TYPE_CHECKING:
    from headgate.cli.asking import Asked

# The control plane holds the answer back for so long at most; longer ones would look like a dead connection.
ASK_S_MAX = 5
ANSWER_S_MAX = 30.0
PAUSE_S = 0.2
SHOWN_NODES_MAX = 10


def wait(asked: Asked, position: str, wait_s: int) -> dict[str, Any]:
    """What the fleet said last; `done` is whether every live node has it. Told on the way, unless for machines."""
    from headgate.cli.progress import working

    version = position.rpartition(".")[2]
    asked.interrupted = f"stopped waiting; version {version} stays"
    deadline = time.monotonic() + wait_s
    with working(f"waiting for the nodes to have version {version}", quiet=asked.as_json):
        state = _ask(asked, position, wait_s)
        while not state["done"] and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            state = _ask(asked, position, deadline - time.monotonic())
    if not asked.as_json:
        typer.echo(told(state, version, wait_s), err=not state["done"])
    return state


def _ask(asked: Asked, position: str, left_s: float) -> dict[str, Any]:
    hold_s = max(0, min(ASK_S_MAX, round(left_s)))
    path = path_of("versions", position, "fleet")
    state: dict[str, Any] = asked.control.get(path, {"wait": hold_s}, timeout_s=hold_s + ANSWER_S_MAX).body
    return state


def told(state: dict[str, Any], version: str, wait_s: int) -> str:
    live = int(state.get("live") or 0)
    if state["done"]:
        if not live:
            return "no node has been heard of lately; those that start will have it"
        return f"{live} live node{' has' if live == 1 else 's have'} version {version}"
    names = [node_name(node) for node in state.get("behind", [])]
    more = f" and {len(names) - SHOWN_NODES_MAX} more" if len(names) > SHOWN_NODES_MAX else ""
    return (
        f"version {version} is made, and after {wait_s} s {len(names)} of {live} live nodes do not have it: "
        + ", ".join(names[:SHOWN_NODES_MAX])
        + more
    )


def node_name(node: object) -> str:
    """A node that is behind, and by what it can be recognised."""
    if not isinstance(node, dict):
        return str(node)
    at = node.get("position")
    return str(node.get("id")) + (f" (at {str(at).rpartition('.')[2]})" if at else "")
