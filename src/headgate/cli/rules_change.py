"""`headgate rules delete|enable|disable|shadow|enforce|rollback`."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from headgate.cli import plan
from headgate.cli.asking import Asked
from headgate.cli.confirm import agreed
from headgate.cli.control_client import path_of
from headgate.cli.errors import EXIT_REFUSED
from headgate.cli.rules_apply import YesOption
from headgate.cli.rules_read import ALL, NameArgument
from headgate.errors import ConfigError

SwitchedArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The rule's name")]


def delete(
    asked: Asked,
    name: NameArgument,
    *,
    if_version: Annotated[
        int | None, typer.Option("--if-version", metavar="N", help="Only if nobody changed it since that version")
    ] = None,
) -> None:
    """Delete a rule. `headgate rules rollback` brings it back.

    \b
    Example:
      headgate rules delete free-login --why "Replaced by login"
    """
    headers = {} if if_version is None else {"If-Match": f'"v{if_version}"'}
    answer = asked.change("DELETE", path_of("rules", name), headers=headers)
    asked.done(answer, f"rule {name} is deleted", {"name": name, "deleted": True})


def enable(asked: Asked, name: NameArgument) -> None:
    """Switch a rule on again.

    \b
    Example:
      headgate rules enable free-login
    """
    answer = asked.change("POST", path_of("rules", name, verb="enable"))
    asked.done(answer, f"rule {name} is enabled", answer.body)


def disable(asked: Asked, name: NameArgument) -> None:
    """Switch a rule off, as if it were not there.

    \b
    Example:
      headgate rules disable free-login --why "Refuses the wrong ones"
    """
    answer = asked.change("POST", path_of("rules", name, verb="disable"))
    asked.done(answer, f"rule {name} is disabled", answer.body)


def shadow(
    asked: Asked,
    name: SwitchedArgument = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every rule there is")] = False,
) -> None:
    """The kill switch: one rule, or all, go on counting and reporting but refuse nobody, until `rules enforce`. The
    rules themselves are not changed.

    \b
    Example:
      headgate rules shadow free-login --wait
      headgate rules shadow --all --why "Half the customers are refused"
    """
    which = _which(name, every)
    answer = asked.change("PUT", path_of("switches", which))
    asked.done(answer, f"{_said(which)} in shadow: counted, not refused", {"id": which, "shadow": True})


def enforce(
    asked: Asked,
    name: SwitchedArgument = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Lift the switch for every rule")] = False,
) -> None:
    """Lift the kill switch that `rules shadow` set.

    \b
    Example:
      headgate rules enforce --all
    """
    which = _which(name, every)
    answer = asked.change("DELETE", path_of("switches", which))
    asked.done(answer, f"{_said(which)} enforced again", {"id": which, "shadow": False})


def rollback(
    asked: Asked,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=0, help="As `headgate versions list` shows it")],
    *,
    yes: YesOption = False,
) -> None:
    """Make rules, tiers, overrides, blocks and switches what they were at a version. That is one more change: nothing
    of the history is lost. API keys and tokens stay as they are, so that nothing revoked comes back to life.

    \b
    Example:
      headgate rules rollback 41 --why "The new limits refuse the wrong ones" --wait
    """
    asked.interrupted = "stopped; nothing was changed"
    body = {"version": version}
    planned = dataclasses.replace(asked, dry_run=True).change("POST", "/rollback", body)
    if asked.dry_run:
        plan.tell(planned.body, as_json=asked.as_json)
        return
    if not asked.as_json:
        plan.tell(planned.body, as_json=False)
    if plan.counts(planned.body).any and not agreed(f"go back to version {version}?", yes=yes):
        typer.echo("stopped; nothing was changed", err=True)
        raise typer.Exit(EXIT_REFUSED)
    answer = asked.change("POST", "/rollback", body)
    asked.done(answer, f"as it was at version {version}", answer.body)


def _which(name: str | None, every: bool) -> str:
    if (name is None) != every:
        raise ConfigError("give either the NAME of a rule or --all")
    return ALL if name is None else name


def _said(which: str) -> str:
    return "every rule is" if which == ALL else f"rule {which} is"
