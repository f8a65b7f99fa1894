"""`headgate rules apply`: rules as code."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO

import typer

from headgate.cli import plan
from headgate.cli.asking import Asked
from headgate.cli.confirm import agreed
from headgate.cli.control_client import CHUNK_BYTES, Answer
from headgate.cli.control_errors import ControlRefused, told_as_change
from headgate.cli.errors import EXIT_REFUSED
from headgate.cli.progress import measured, metered
from headgate.cli.rules_source import RulesSource, bulk_file, located_in_lines, read_sources
from headgate.errors import ConfigError

# A million rules are committed in minutes, and nothing is heard meanwhile.
COMMIT_TIMEOUT_S = 1800.0
_NOTHING_CHANGED = "stopped; nothing was changed"

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")]


def apply(
    asked: Asked,
    more: Annotated[list[str] | None, typer.Argument(metavar="[FILE|DIR]...", help="Further ones", hidden=True)] = None,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--file", "-f", metavar="FILE|DIR", help="*.yaml, *.json, a folder of them, or one *.jsonl; may be repeated"
        ),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Delete what is in no file")] = False,
    yes: YesOption = False,
) -> None:
    """Rules as code: make the control plane have what these files say. Shows what would change, asks, applies it as one
    change, and with --wait ends when every live node has it.

    \b
    Example:
      headgate rules apply -f rules/ --prune --wait --why "Black Friday"
      headgate rules apply -f rules.yaml --dry-run
    """
    named = [*(files or []), *(more or [])]
    if not named:
        raise ConfigError("name what to apply: -f FILE or -f DIR")
    bulk = bulk_file(named)
    if bulk is None:
        apply_documents(asked, read_sources(named), prune=prune, yes=yes)
    else:
        _apply_bulk(asked, bulk, prune=prune, yes=yes)


def apply_documents(asked: Asked, source: RulesSource, *, prune: bool, yes: bool) -> None:
    """Plan, ask, and send what was agreed to."""
    asked.interrupted = _NOTHING_CHANGED
    planned = _send(dataclasses.replace(asked, dry_run=True), source, prune)
    if asked.dry_run:
        plan.tell(planned.body, as_json=asked.as_json)
        return
    if _may(asked, planned.body, yes=yes):
        answer = _send(asked, source, prune, at=planned.body["at"])
        asked.done(answer, _said(answer.body), answer.body)


def _may(asked: Asked, planned: dict[str, Any], *, yes: bool) -> bool:
    """Show the plan, and whether it was agreed to. Nothing to change needs nobody's word."""
    if not asked.as_json:
        plan.tell(planned, as_json=False)
    found = plan.counts(planned)
    if not found.any:
        return True
    if agreed("apply this?", yes=yes):
        return True
    typer.echo(_NOTHING_CHANGED, err=True)
    raise typer.Exit(EXIT_REFUSED)


def _send(asked: Asked, source: RulesSource, prune: bool, at: str | None = None) -> Answer:
    """`at` is where the plan was made: what was agreed to is what is applied, or nothing."""
    try:
        return asked.change("POST", "/apply", source.body, query={"prune": prune, "at": at})
    except ControlRefused as error:
        raise source.located(error) from None


def _apply_bulk(asked: Asked, path: str, *, prune: bool, yes: bool) -> None:
    """The file goes up as it is read. It is checked on the other side: reading a million rules twice would double the
    time. The plan is a second upload, so it is made only where somebody looks at it."""
    asked.interrupted = _NOTHING_CHANGED
    at: str | None = None
    if asked.dry_run or not yes:
        planned = _upload(dataclasses.replace(asked, dry_run=True), path, prune)
        if asked.dry_run:
            plan.tell(planned.body, as_json=asked.as_json)
            return
        if not _may(asked, planned.body, yes=yes):
            return
        at = planned.body["at"]
    answer = _upload(asked, path, prune, at)
    asked.done(answer, _said(answer.body), answer.body)


def _upload(asked: Asked, path: str, prune: bool, at: str | None = None) -> Answer:
    try:
        size = os.path.getsize(path)
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    word = "checking" if asked.dry_run else "sending"
    with file, metered(f"{word} {os.path.basename(path)}", size, quiet=asked.as_json) as meter:

        def chunks() -> Iterator[bytes]:
            yield from measured(_pieces(file, size), meter)
            meter.say("looking at what would change" if asked.dry_run else "committing")
            if not asked.dry_run:
                asked.interrupted = (
                    "stopped while committing; `headgate versions list` shows whether the change was made"
                )

        query = asked.change_query({"prune": prune, "at": at})
        try:
            with told_as_change(asked.dry_run):
                return asked.control.upload("/apply", chunks(), size, query=query, timeout_s=COMMIT_TIMEOUT_S)
        except ControlRefused as error:
            raise located_in_lines(path, error) from None


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Exactly as many bytes as were announced, or an error: a file that changes meanwhile is nothing to apply."""
    left = size
    while left:
        piece = file.read(min(CHUNK_BYTES, left))
        if not piece:
            raise ConfigError(f"{file.name}: became shorter while it was read; nothing was changed")
        left -= len(piece)
        yield piece


def _said(body: dict[str, Any]) -> str:
    pairs = (("created", "created"), ("replaced", "replaced"), ("deleted", "deleted"), ("unchanged", "unchanged"))
    told = [f"{int(body[name]):,} {word}" for name, word in pairs if body.get(name)]
    return ", ".join(told) or "nothing to change"
