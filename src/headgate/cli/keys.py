"""`headgate keys …`: in a file when one is named, else of the control plane."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headgate.cli import keys_in_file, times
from headgate.cli.asking import CHANGING, READING, Asked, WaitingCommand, asked_with, is_named
from headgate.cli.composed import Verb, composed, options_of, own_parameters
from headgate.cli.control_client import Answer, path_of
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


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a verb is about: those in `file` or, without one, those of a control plane. `shared` are the flags
    of every verb that asks one."""

    file: str | None
    shared: Mapping[str, Any]

    @property
    def as_json(self) -> bool:
        return bool(self.shared["as_json"])

    @contextlib.contextmanager
    def in_file(self, **of_control: object) -> Iterator[str]:
        """The file. What only a control plane takes must not be given with one."""
        of_control |= {name: self.shared.get(name) for name in ("why", "wait", "dry_run")}
        with reported():
            given = ", ".join(f"--{name.replace('_', '-')}" for name, value in of_control.items() if value)
            if given:
                raise ConfigError(f"{given}: only for keys of a control plane, not with a file")
            assert self.file is not None
            yield self.file

    def asked(self) -> contextlib.AbstractContextManager[Asked]:
        return asked_with(**self.shared)


def _verb(name: str, shared: Mapping[str, Any], *, makes: bool = False) -> Callable[[Verb], Verb]:
    """Register a verb whose first parameter is `Keys`. `makes`: a file need not be there."""

    def register(verb: Verb) -> Verb:
        def run(file: str | None, **given: Any) -> None:
            chosen = {option: given.pop(option) for option in shared}
            verb(Keys(_file(file, chosen["control"], chosen["token_file"], makes=makes), chosen), **given)

        _, *own = own_parameters(verb)
        command = composed(verb, [*own, *options_of({"file": FileOption, **shared})], run)
        app.command(name, cls=WaitingCommand if "wait" in shared else None)(command)
        return verb

    return register


@_verb("create", CHANGING, makes=True)
def create(
    keys: Keys,
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
) -> None:
    """Make an API key. Its value is printed once, here; what is kept is its hash and whose it is.

    \b
    Example:
      headgate keys create --user 42 --tier pro
      headgate keys create --file keys.yaml --secret-file keys.secret --user 42 --tier pro
    """
    given: dict[str, Any] = {"name": name, "user": user, "tier": tier, "org": org}
    if keys.file is not None:
        with keys.in_file(limit=limit) as file:
            key_id, value = keys_in_file.create(file, secret_file, given, expires)
        _print_new({"id": key_id, "key": value, "file": file}, keys.as_json, f"is in {file}")
        return
    with keys.asked() as asked:
        body = {field: text for field, text in given.items() if text is not None}
        if expires is not None:
            body["expires"] = times.written(times.when(expires, "--expires"))
        if limit:
            body["limit"] = limit[0] if len(limit) == 1 else limit
        _tell_new(asked, asked.change("POST", "/keys", body))


@_verb("list", READING)
def list_keys(
    keys: Keys,
    user: Annotated[str | None, typer.Option("--user", metavar="ID")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME")] = None,
    state: Annotated[str | None, typer.Option("--state", metavar="WORD", help="active, expired or revoked")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
) -> None:
    """Show the keys: whose they are, and which have ended.

    \b
    Example:
      headgate keys list --user 42
      headgate keys list --file keys.yaml
    """
    query = {"user": user, "org": org, "tier": tier, "state": state}
    if keys.file is not None:
        with keys.in_file(**query) as file:
            entries = keys_in_file.listed(file)
        if keys.as_json:
            typer.echo(json.dumps(entries, indent=2))
        else:
            shown = (*_COLUMNS, "state")
            show_table(shown, [[text(entry.get(at)) for at in shown] for entry in entries])
        return
    with keys.asked() as asked:
        show_list(asked, "/keys", (*_COLUMNS, "state", "last used"), _row, limit=limit, query=query)


@_verb("revoke", CHANGING)
def revoke(
    keys: Keys,
    key_id: KeyArgument,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="With --file: who revokes it; you unless given")
    ] = None,
) -> None:
    """End a key, from now on. Running nodes take the change over by themselves.

    \b
    Example:
      headgate keys revoke k3v9x2m4q7wz --wait
      headgate keys revoke k3v9x2m4q7wz --file keys.yaml
    """
    if keys.file is not None:
        with keys.in_file() as file:
            keys_in_file.revoke(file, key_id, by)
        if keys.as_json:
            typer.echo(json.dumps({"id": key_id, "revoked": True, "file": file}))
        else:
            typer.echo(f"key {key_id} is revoked in {file}")
        return
    with keys.asked() as asked:
        if by is not None:
            raise ConfigError("--by is for files: the control plane knows you by your token")
        answer = asked.change("POST", path_of("keys", key_id, verb="revoke"))
        asked.done(answer, f"key {key_id} is revoked", answer.body)


@_verb("rotate", CHANGING)
def rotate(
    keys: Keys,
    key_id: KeyArgument,
    secret_file: SecretFileOption = keys_in_file.DEFAULT_SECRET_FILE,
    grace: Annotated[
        str | None,
        typer.Option("--grace", metavar="TIME", help="The old one goes on for 24h; unless given, it ends now"),
    ] = None,
) -> None:
    """Make a new key in place of an old one, for the same owner. The value is printed once; the old key ends after the
    grace.

    \b
    Example:
      headgate keys rotate k3v9x2m4q7wz --grace 24h
    """
    if keys.file is not None:
        with keys.in_file() as file:
            grace_s = 0 if grace is None else times.seconds(grace, "--grace")
            new_id, value = keys_in_file.rotate(file, secret_file, key_id, grace_s)
        made = {"id": new_id, "key": value, "file": file}
        _print_new(made, keys.as_json, f"is in {file}, in place of {key_id}")
        return
    with keys.asked() as asked:
        if grace is not None:
            times.seconds(grace, "--grace")
        body = {} if grace is None else {"grace": grace}
        _tell_new(asked, asked.change("POST", path_of("keys", key_id, verb="rotate"), body))


def _file(file: str | None, control: str | None, token_file: str | None, *, makes: bool) -> str | None:
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


def _print_new(made: dict[str, str], as_json: bool, where: str) -> None:
    if as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(made["key"])
    typer.echo(f"key {made['id']} {where}; its value is shown here once and kept nowhere", err=True)


def _tell_new(asked: Asked, answer: Answer) -> None:
    """The value goes where it can be piped, the words beside it."""
    if not asked.dry_run and not asked.as_json:
        typer.echo(answer.body["key"])
    asked.done(answer, f"key {answer.body.get('id')}; its value is shown here once and kept nowhere", answer.body)


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    used = key.get("last_used") or (key.get("meta") or {}).get("last_used")
    return (*(text(key.get(name)) for name in _COLUMNS), times.state(key), text(used))
