"""`headgate keys …`: in a file when one is named, else of the control plane."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from headgate.cli import keys_in_file, times
from headgate.cli.asking import (
    ControlOption,
    DryRunOption,
    JsonOption,
    TokenFileOption,
    WaitingCommand,
    WaitOption,
    WhyOption,
    asked_with,
    is_named,
)
from headgate.cli.control_client import path_of
from headgate.cli.errors import reported
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, show_list, show_table, text
from headgate.errors import ConfigError

app = typer.Typer(help="API keys, of a control plane or in a file.", no_args_is_help=True, rich_markup_mode=None)

FileOption = Annotated[
    str | None,
    typer.Option("--file", metavar="FILE", help="Keys in a file (YAML, JSON, JSON Lines), not of the control plane"),
]
SecretFileOption = Annotated[
    str,
    typer.Option("--secret-file", metavar="FILE", help="With --file: what hashes are made with; made if not there"),
]
KeyArgument = Annotated[str, typer.Argument(metavar="ID", help="As `headgate keys list` shows it")]
_COLUMNS = ("id", "name", "user", "org", "tier")


@app.command("create", cls=WaitingCommand)
def create(
    file: FileOption = None,
    secret_file: SecretFileOption = keys_in_file.DEFAULT_SECRET_FILE,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose key it is")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME", help="The tier it gives")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call it")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="LIMIT", help="Its own: 100/minute; not with --file")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="2027-01-31, 2027-01-31T12:00:00Z, or 90d")
    ] = None,
    control: ControlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
) -> None:
    """Make an API key. Its value is printed once, here; what is kept is its hash and whose it is.

    \b
    Example:
      headgate keys create --user 42 --tier pro
      headgate keys create --file keys.yaml --secret-file keys.secret --user 42 --tier pro
    """
    given: dict[str, Any] = {"name": name, "user": user, "tier": tier, "org": org}
    chosen = _file(file, control, token_file, makes=True)
    if chosen is not None:
        with reported():
            _control_only(why=why, wait=wait, dry_run=dry_run, limit=limit)
            key_id, value = keys_in_file.create(chosen, secret_file, given, expires)
        _print_new({"id": key_id, "key": value, "file": chosen}, as_json, f"is in {chosen}")
        return
    with asked_with(control, token_file, as_json, why, dry_run, wait) as asked:
        body = {field: text for field, text in given.items() if text is not None}
        if expires is not None:
            body["expires"] = times.written(times.when(expires, "--expires"))
        if limit:
            body["limit"] = limit[0] if len(limit) == 1 else limit
        answer = asked.change("POST", "/keys", body)
        if not dry_run and not as_json:
            typer.echo(answer.body["key"])
        asked.done(answer, _kept(answer.body), answer.body)


@app.command("list")
def list_keys(
    file: FileOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME")] = None,
    state: Annotated[str | None, typer.Option("--state", metavar="WORD", help="active, expired or revoked")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    control: ControlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the keys: whose they are, and which have ended.

    \b
    Example:
      headgate keys list --user 42
      headgate keys list --file keys.yaml
    """
    query = {"user": user, "org": org, "tier": tier, "state": state}
    chosen = _file(file, control, token_file)
    if chosen is not None:
        with reported():
            _control_only(**query)
            entries = keys_in_file.listed(chosen)
        if as_json:
            typer.echo(json.dumps(entries, indent=2))
        else:
            show_table(
                (*_COLUMNS, "state"), [[text(entry.get(at)) for at in (*_COLUMNS, "state")] for entry in entries]
            )
        return
    with asked_with(control, token_file, as_json) as asked:
        show_list(asked, "/keys", (*_COLUMNS, "state", "last used"), _row, limit=limit, query=query)


@app.command("revoke", cls=WaitingCommand)
def revoke(
    key_id: KeyArgument,
    file: FileOption = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="With --file: who revokes it; you unless given")
    ] = None,
    control: ControlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
) -> None:
    """End a key, from now on. Running nodes take the change over by themselves.

    \b
    Example:
      headgate keys revoke k3v9x2m4q7wz --wait
      headgate keys revoke k3v9x2m4q7wz --file keys.yaml
    """
    chosen = _file(file, control, token_file)
    if chosen is not None:
        with reported():
            _control_only(why=why, wait=wait, dry_run=dry_run)
            keys_in_file.revoke(chosen, key_id, by)
        if as_json:
            typer.echo(json.dumps({"id": key_id, "revoked": True, "file": chosen}))
        else:
            typer.echo(f"key {key_id} is revoked in {chosen}")
        return
    with asked_with(control, token_file, as_json, why, dry_run, wait) as asked:
        if by is not None:
            raise ConfigError("--by is for files: the control plane knows you by your token")
        answer = asked.change("POST", path_of("keys", key_id, verb="revoke"))
        asked.done(answer, f"key {key_id} is revoked", answer.body)


@app.command("rotate", cls=WaitingCommand)
def rotate(
    key_id: KeyArgument,
    file: FileOption = None,
    secret_file: SecretFileOption = keys_in_file.DEFAULT_SECRET_FILE,
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="TIME", help="The old one goes on for 24h; unless given, it ends now"),
    ] = None,
    control: ControlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
    why: WhyOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
) -> None:
    """Make a new key in place of an old one, for the same owner. The value is printed once; the old key ends after the
    grace.

    \b
    Example:
      headgate keys rotate k3v9x2m4q7wz --grace 24h
    """
    chosen = _file(file, control, token_file)
    if chosen is not None:
        with reported():
            _control_only(why=why, wait=wait, dry_run=dry_run)
            grace_s = 0 if grace is None else times.seconds(grace, "--grace")
            new_id, value = keys_in_file.rotate(chosen, secret_file, key_id, grace_s)
        _print_new({"id": new_id, "key": value, "file": chosen}, as_json, f"is in {chosen}, in place of {key_id}")
        return
    with asked_with(control, token_file, as_json, why, dry_run, wait) as asked:
        if grace is not None:
            times.seconds(grace, "--grace")
        body = {} if grace is None else {"grace": grace}
        answer = asked.change("POST", path_of("keys", key_id, verb="rotate"), body)
        if not dry_run and not as_json:
            typer.echo(answer.body["key"])
        asked.done(answer, _kept(answer.body), answer.body)


def _file(file: str | None, control: str | None, token_file: str | None, *, makes: bool = False) -> str | None:
    """The file that is meant, if it is a file. Where nothing speaks of a control plane, it is the one in this folder,
    as it was before there were control planes."""
    if file is not None:
        if control is not None or token_file is not None:
            with reported():
                raise ConfigError(
                    "--file is for keys in a file, --control and --token-file for those of a control plane"
                )
        return file
    if is_named(control, token_file) or not (makes or os.path.exists(keys_in_file.DEFAULT_FILE)):
        return None
    typer.echo(
        f"no control plane is named, so this is about {keys_in_file.DEFAULT_FILE}; for one give a token "
        "(HEADGATE_TOKEN or --token-file FILE)",
        err=True,
    )
    return keys_in_file.DEFAULT_FILE


def _control_only(**flags: object) -> None:
    given = ", ".join(f"--{name.replace('_', '-')}" for name, value in flags.items() if value)
    if given:
        raise ConfigError(f"{given}: only for keys of a control plane, not with a file")


def _print_new(made: dict[str, str], as_json: bool, where: str) -> None:
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(made["key"])
    typer.echo(f"key {made['id']} {where}; its value is shown here once and kept nowhere", err=True)


def _kept(body: dict[str, Any]) -> str:
    return f"key {body.get('id')}; its value is shown here once and kept nowhere"


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    used = key.get("last_used") or (key.get("meta") or {}).get("last_used")
    return (*(text(key.get(name)) for name in _COLUMNS), times.state(key), text(used))
