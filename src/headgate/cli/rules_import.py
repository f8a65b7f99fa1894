"""`headgate rules import`: a file of ours into a control plane, or another limiter's files into rules."""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headgate.cli.asking import (
    ControlOption,
    DryRunOption,
    JsonOption,
    TokenFileOption,
    WaitOption,
    WhyOption,
    asked_with,
)
from headgate.cli.errors import EXIT_REFUSED, reported
from headgate.cli.replacing import replacing
from headgate.cli.rules_apply import YesOption, apply, apply_documents
from headgate.cli.rules_source import RulesSource, check_rules_name
from headgate.cli.yaml_text import document_text
from headgate.errors import ConfigError, RulesFileError, printable
from headgate.importing.imported import Imported, Level
from headgate.model import find_mistakes
from headgate.model.document import BULK_SUFFIX
from headgate.model.nodes import TEXT_BYTES_MAX

# Who reads which files. Looked up when they are needed: most runs of the command need none of them.
FORMATS = {
    "envoy": ("headgate.importing.envoy", "read_envoy"),
    "limitador": ("headgate.importing.limitador", "read_limitador"),
    "kong": ("headgate.importing.kong", "read_kong"),
}
_HEADINGS: dict[Level, str] = {
    "cannot": "Cannot be expressed:",
    "differs": "Behaves differently:",
    "note": "Good to know:",
}


def import_rules(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="*.yaml, *.json, or *.jsonl in bulk; with --from, theirs")
    ],
    *,
    source: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help=f"Whose files these are: {', '.join(FORMATS)}")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the rules there: *.yaml, *.json or *.jsonl"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --output")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything cannot be expressed")] = False,
    send: Annotated[
        bool, typer.Option("--apply", help="Send the rules to the control plane, not to the output")
    ] = False,
    yes: YesOption = False,
    control: ControlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
) -> None:
    """Add the rules of one file to a control plane: `rules apply` that deletes nothing. With --from, turn another
    limiter's files into rules, and say what cannot be expressed and what behaves differently.

    \b
    Example:
      headgate rules import rules.yaml --yes
      headgate rules import --from envoy config/ --output rules.yaml
      headgate rules import --from limitador limits.yaml --strict > rules.yaml
      headgate rules import --from kong kong.yaml --apply --dry-run
    """
    asking = functools.partial(asked_with, control, token_file, as_json, why, dry_run, wait)
    with reported():
        _check(paths, source, {"--output": output, "--force": force, "--strict": strict, "--apply": send})
        said_to_control = yes or any((control, token_file, why, dry_run, wait))
        if source is not None and said_to_control and not send:
            raise ConfigError(
                "nothing is sent to a control plane without --apply: give it, or leave out what is for it"
            )
    if source is None:
        with asking() as asked:
            apply(asked, files=paths, yes=yes)
        return
    with reported():
        imported = _converted(source, paths)
        told_as_json = as_json and not send
        if not told_as_json:
            _tell(imported)
        refused = strict and any(note.level == "cannot" for note in imported.notes)
        if output is not None and not refused:
            _write(imported, output, force=force)
        if told_as_json:
            typer.echo(_report(imported))
        elif output is None and not send and not refused:
            typer.echo(_text(imported.document), nl=False)
        if refused:
            typer.echo("headgate: not everything can be expressed, and --strict was given: stopped", err=True)
            raise typer.Exit(EXIT_REFUSED)
    if send:
        with asking() as asked:
            apply_documents(asked, RulesSource(tuple(paths), imported.document, {}), prune=False, yes=yes)


def _check(paths: Sequence[str], source: str | None, beside: dict[str, object]) -> None:
    """Flags that do not go together are told, not ignored."""
    if source is None:
        needless = [flag for flag, given in beside.items() if given]
        if needless:
            raise ConfigError(f"{needless[0]} is for another limiter's files: say whose they are, with --from")
        if len(paths) > 1:
            raise ConfigError("name one file; `headgate rules apply` takes several")
    elif source not in FORMATS:
        raise ConfigError(f"--from {source}: expected one of {', '.join(FORMATS)}")
    elif beside["--apply"] and beside["--output"]:
        raise ConfigError("give --apply or --output, not both")
    elif beside["--force"] and not beside["--output"]:
        raise ConfigError("--force is for the file of --output")


def _converted(source: str, paths: Sequence[str]) -> Imported:
    module, name = FORMATS[source]
    read: Callable[[Sequence[str]], Imported] = getattr(importlib.import_module(module), name)
    imported = read(paths)
    # The engine is the judge of what comes out, always: a file that a node refuses is no file of rules.
    _, mistakes = find_mistakes(imported.document)
    if mistakes:
        raise RulesFileError(mistakes)
    return imported


def _write(imported: Imported, output: str, *, force: bool) -> None:
    if not force and os.path.lexists(output):
        raise ConfigError(f"{output}: exists already; give --force to overwrite it")
    check_rules_name(output)
    text = _text(imported.document, output)
    try:
        with replacing(output) as file:
            file.write(text.encode())
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written: {error.strerror or error}") from None
    count = len(imported.document["rules"])
    typer.echo(f"{output}: {count} rule{'' if count == 1 else 's'}", err=True)


def _text(document: dict[str, Any], output: str = "") -> str:
    """As the output's name says. Raises ConfigError where nobody could read it again."""
    if output.endswith(BULK_SUFFIX):
        others = [name for name in document if name != "rules"]
        if others:
            raise ConfigError(f"{output}: JSON Lines hold rules alone, and there are {others[0]}; name a *.yaml")
        return "".join(json.dumps(rule) + "\n" for rule in document["rules"])
    text = document_text(document, is_json=output.endswith(".json"))
    if len(text.encode()) > TEXT_BYTES_MAX:
        what = f"more than {TEXT_BYTES_MAX // 2**20} MiB of rules, which only a bulk file holds"
        raise ConfigError(f"{what}: give --output rules{BULK_SUFFIX}")
    return text


def _report(imported: Imported) -> str:
    shown: dict[str, Any] = {"document": imported.document, "notes": [asdict(note) for note in imported.notes]}
    return json.dumps(shown, indent=2)


def _tell(imported: Imported) -> None:
    for level, heading in _HEADINGS.items():
        notes = [note for note in imported.notes if note.level == level]
        if notes:
            typer.echo(heading, err=True)
        for note in notes:
            typer.echo(printable(f"  {note.where}: {note.what}"), err=True)
