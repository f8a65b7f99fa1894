"""`headgate doctor`."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli import asking, node
from headgate.cli.control_client import Control
from headgate.cli.control_errors import ControlRefused, ControlUnreachable, printable
from headgate.cli.errors import reported
from headgate.cli.flags import with_setting_flags
from headgate.cli.progress import working
from headgate.errors import ConfigError, SettingsError
from headgate.settings import CONTROL_URL_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, read_settings

if TYPE_CHECKING:
    from headgate.doctor.examine import Told
    from headgate.doctor.finding import Finding

CONTROL_TIMEOUT_S = 5.0
EXIT_WARNINGS = 1
EXIT_PROBLEMS = 2

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node", metavar="URL", help="A running node: HOST:PORT, http://, https:// or unix:/PATH, its admin address"
    ),
]
ControlOption = Annotated[
    str | None, typer.Option("--control-url", metavar="URL", help=f"The control plane to ask [{CONTROL_URL_VARIABLE}]")
]
TokenFileOption = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", help=f"File with your token [{TOKEN_FILE_VARIABLE}; or {TOKEN_VARIABLE}]"
    ),
]


def _doctor(
    *,
    config: str | None = None,
    node_url: NodeOption = None,
    control_url: ControlOption = None,
    token_file: TokenFileOption = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show also what is well")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
    **flags: str | None,
) -> None:
    """Look at a set-up and say what to do: the store, the rules, a running node, addresses, secrets, certificates. It
    takes a node's settings, and changes nothing. Exit code 0: nothing worse than notes; 1: warnings; 2: problems.

    \b
    Example:
      headgate doctor --rules rules.yaml --store redis://127.0.0.1:6379 --node 127.0.0.1:8080
    """
    # What the store's connections would log is told as findings.
    logging.getLogger("headgate").addHandler(logging.NullHandler())
    with reported():
        findings = _findings(flags, config, node_url, control_url, token_file)
    from headgate.doctor.finding import Level, worst

    level = worst(findings)
    if as_json:
        shown = [finding.as_dict() for finding in findings]
        typer.echo(json.dumps({"worst": level.word, "findings": shown}, indent=2))
    else:
        _show(findings, show_all=show_all)
    if level >= Level.WARNING:
        raise typer.Exit(EXIT_PROBLEMS if level is Level.PROBLEM else EXIT_WARNINGS)


def _findings(
    flags: dict[str, str | None],
    config: str | None,
    node_url: str | None,
    control_url: str | None,
    token_file: str | None,
) -> list[Finding]:
    from headgate.doctor.examine import Examination
    from headgate.doctor.finding import merged, note, problem
    from headgate.doctor.gather.node import node_address

    named = None if node_url is None else node_address(node_url)
    try:
        settings = read_settings(flags, config=config, defaults=node.DEFAULTS)
    except SettingsError as error:
        do = "correct them: nothing starts with them, and nothing else was looked at"
        return merged(problem("settings.mistakes", "The settings have mistakes", said, do) for said in error.problems)
    unknown = "look whether it is misspelt; it has no effect"
    findings = [note("settings.unknown", "A setting is not known", said, unknown) for said in settings.warnings]
    control = _control(control_url, token_file)
    ask = None if control is None else lambda: _ask(control)
    for step in Examination(settings, named, ask).steps():
        with working(f"looking at {step.name}"):
            findings += step.findings()
    return merged(findings)


def _control(url: str | None, token_file: str | None) -> Control | None:
    """The control plane, where flags or environment name one."""
    url = url or os.environ.get(CONTROL_URL_VARIABLE)
    if not url:
        if token_file is not None:
            raise ConfigError("--token-file goes with --control-url")
        return None
    return Control(url, asking.token(token_file), timeout_s=CONTROL_TIMEOUT_S)


def _ask(control: Control) -> Told:
    from headgate.doctor.examine import Told
    from headgate.doctor.gather.rules import RULES_MAX, RulesFacts

    try:
        fleet = control.get("/fleet").body
        rules, more_rules = control.pages("/rules", limit=RULES_MAX)
        overrides, more_overrides = control.pages("/overrides", limit=RULES_MAX)
    except (ControlRefused, ControlUnreachable) as error:
        return Told(error=str(error))
    is_cut = more_rules or more_overrides
    return Told(fleet, RulesFacts(control.address.text, (), tuple(rules), tuple(overrides), is_cut=is_cut))


def _show(findings: list[Finding], *, show_all: bool) -> None:
    """The worst first, each with what to do under it."""
    from headgate.cli.output import console
    from headgate.doctor.finding import Level

    out = console()
    least = Level.OK if show_all else Level.NOTE
    colour = {Level.PROBLEM: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan", Level.OK: "green"}
    for finding in sorted(findings, key=lambda one: -one.level):
        if finding.level < least:
            continue
        out.print(
            f"{finding.level.word.upper()}  {printable(finding.title)}", style=colour[finding.level], soft_wrap=True
        )
        out.print(f"    {printable(finding.seen)}  [{finding.code}]", soft_wrap=True)
        if finding.do:
            out.print(f"    → {printable(finding.do)}", soft_wrap=True)
    counts = {one: sum(finding.level is one for finding in findings) for one in Level}
    said = ", ".join(f"{count} {_plural(one.word, count)}" for one, count in reversed(counts.items()) if one and count)
    out.print(f"{said or 'all is well'} ({counts[Level.OK]} well{'' if show_all else '; --all shows them'})")


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


doctor = with_setting_flags(_doctor, also={"listen": "--http"})
