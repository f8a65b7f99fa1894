"""What every verb that asks a control plane has in common: where it is, the token, `--json`; and for those that change
something, why, a dry run, and waiting until the nodes have it."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from headgate.cli import times
from headgate.cli.composed import composed, options_of, own_parameters
from headgate.cli.control_client import Answer, Control, Query
from headgate.cli.control_errors import HOW_TO_GET_A_TOKEN, told_as_change
from headgate.cli.errors import EXIT_REFUSED, reported
from headgate.errors import ConfigError
from headgate.settings import CONTROL_URL_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

DEFAULT_CONTROL = "http://127.0.0.1:8080"
DEFAULT_WAIT = "30s"
_TOKEN = re.compile(r"[!-~]{1,512}\Z")

ControlOption = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="URL",
        help=f"The control plane: http://, https:// or unix:// (default {DEFAULT_CONTROL}) [{CONTROL_URL_VARIABLE}]",
    ),
]
TokenFileOption = Annotated[
    str | None,
    typer.Option(
        "--token-file", metavar="FILE", help=f"File with your token [{TOKEN_FILE_VARIABLE}; or {TOKEN_VARIABLE}]"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines")]
WhyOption = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="Kept in the history beside the change")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing")]
WaitOption = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar=f"[={DEFAULT_WAIT}]",
        help=f"Wait until every live node has it, for so long at most ({DEFAULT_WAIT} unless given)",
    ),
]

READING = {"control": ControlOption, "token_file": TokenFileOption, "as_json": JsonOption}
CHANGING = {**READING, "why": WhyOption, "dry_run": DryRunOption, "wait": WaitOption}


@dataclass(slots=True)
class Asked:
    """One run of a verb: whom it asks and how it answers. `interrupted` is what Ctrl-C prints: how things stand."""

    control: Control
    as_json: bool = False
    why: str | None = None
    dry_run: bool = False
    wait_s: int | None = None
    interrupted: str = "stopped"

    def change(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask for a change; in a dry run, for what it would be."""
        self.interrupted = "stopped; `headgate versions list` shows whether the change was made"
        with told_as_change(self.dry_run):
            answer = self.control.send(method, path, body, query=self.change_query(query), headers=headers)
        self.interrupted = "stopped; nothing was changed" if self.dry_run else "stopped; the change is made"
        return answer

    def change_query(self, query: Query | None = None) -> Query:
        return {**(query or {}), "why": self.why, "dry_run": True if self.dry_run else None}

    def done(self, answer: Answer, said: str, shown: Mapping[str, Any] | None = None) -> None:
        """Tell what was changed; in a dry run, what would be. Then wait, if that was asked for."""
        from headgate.cli import fleet_wait, plan

        if self.dry_run:
            plan.tell(answer.body, as_json=self.as_json)
            return
        version = None if answer.position is None else answer.position.rpartition(".")[2]
        if not self.as_json:
            typer.echo(said + ("" if version is None else f" (version {version})"))
        told: dict[str, Any] = {**(shown or {}), "position": answer.position}
        try:
            if self.wait_s is not None and answer.position is not None:
                told["fleet"] = fleet_wait.wait(self, answer.position, self.wait_s)
        finally:
            # Whatever becomes of waiting: it may hold a key that is told once.
            if self.as_json:
                typer.echo(json.dumps(told, indent=2))
        if not told.get("fleet", {"done": True})["done"]:
            raise typer.Exit(EXIT_REFUSED)


class WaitingCommand(TyperCommand):
    """`--wait` may stand alone or as `--wait=10s`; a word after it is never taken for its time."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"--wait={DEFAULT_WAIT}" if word == "--wait" else word for word in args])


def reading(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a verb that asks and changes nothing. Its first parameter is an `Asked`."""
    return lambda verb: app.command(name)(asking(verb, READING))


def changing(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a verb that changes something."""
    return lambda verb: app.command(name, cls=WaitingCommand)(asking(verb, CHANGING))


def asking(verb: Callable[..., None], options: Mapping[str, Any] = READING) -> Callable[..., None]:
    """A command of the verb's own parameters and these options, that runs the verb with an `Asked`."""
    _, *own = own_parameters(verb)

    def run(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in options}
        with asked_with(**chosen) as asked:
            verb(asked, **given)

    return composed(verb, [*own, *options_of(options)], run)


@contextlib.contextmanager
def asked_with(
    control: str | None = None,
    token_file: str | None = None,
    as_json: bool = False,
    why: str | None = None,
    dry_run: bool = False,
    wait: str | None = None,
) -> Iterator[Asked]:
    """Who is asked, from the flags and the environment; what goes wrong becomes a message and an exit code, and so does
    Ctrl-C."""
    with reported():
        url = control or os.environ.get(CONTROL_URL_VARIABLE) or DEFAULT_CONTROL
        wait_s = None if wait is None else times.seconds(wait, "--wait")
        asked = Asked(Control(url, token(token_file)), as_json, why, dry_run, wait_s)
        try:
            yield asked
        except (KeyboardInterrupt, typer.Abort):
            typer.echo(f"headgate: {asked.interrupted}", err=True)
            raise typer.Exit(EXIT_REFUSED) from None


def is_named(control: str | None, token_file: str | None) -> bool:
    """Whether flags or environment speak of a control plane at all."""
    names = (CONTROL_URL_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE)
    return bool(control or token_file or any(os.environ.get(name) for name in names))


def token(file: str | None) -> str:
    """The token: of the file that was named, else of the environment. It is never shown, not even when it is wrong."""
    from headgate.identity import read_secret

    given = None if file else os.environ.get(TOKEN_VARIABLE)
    path = file or os.environ.get(TOKEN_FILE_VARIABLE)
    if given:
        where, text = TOKEN_VARIABLE, given.strip()
    elif path:
        where, text = path, read_secret(path).decode("ascii", "replace").strip()
    else:
        raise ConfigError(f"a token is needed to ask the control plane. {HOW_TO_GET_A_TOKEN}")
    if not _TOKEN.match(text):
        raise ConfigError(f"{where}: this is not a token; expected one line such as hga_…")
    return text
