"""`headgate tokens …`."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any

import typer

from headgate.cli import times
from headgate.cli.asking import Asked, reading
from headgate.cli.control_client import path_of
from headgate.cli.rules_read import LimitOption
from headgate.cli.shown import LIMIT_DEFAULT, show_list, text

app = typer.Typer(help="Tokens for asking the control plane.", no_args_is_help=True, rich_markup_mode=None)


class Role(enum.StrEnum):
    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"


def create(
    asked: Asked,
    *,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="Whose it is; the history names it")],
    role: Annotated[
        Role,
        typer.Option("--role", metavar="WORD", help="viewer reads, editor changes rules, admin also keys and tokens"),
    ] = Role.VIEWER,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="2027-01-31, 2027-01-31T12:00:00Z, or 90d")
    ] = None,
) -> None:
    """Make a token. It is printed once, here; the control plane keeps its hash.

    \b
    Example:
      headgate tokens create --name deploy --role editor --expires 90d
    """
    body = {"name": name, "role": role.value}
    if expires is not None:
        body["expires"] = times.written(times.when(expires, "--expires"))
    made = asked.control.send("POST", "/tokens", body).body
    if asked.as_json:
        typer.echo(json.dumps(made))
        return
    typer.echo(made["token"])
    typer.echo(f"token {made['id']} of {name} ({role.value}); it is shown here once and kept nowhere", err=True)


def list_tokens(asked: Asked, *, limit: LimitOption = LIMIT_DEFAULT) -> None:
    """Show who may ask the control plane for what.

    \b
    Example:
      headgate tokens list
    """
    show_list(asked, "/tokens", ("id", "name", "role", "state", "created", "by"), _row, limit=limit)


def revoke(
    asked: Asked, token_id: Annotated[str, typer.Argument(metavar="ID", help="As `headgate tokens list` shows it")]
) -> None:
    """End a token, from now on.

    \b
    Example:
      headgate tokens revoke t4m8x2k9
    """
    answer = asked.control.send("POST", path_of("tokens", token_id, verb="revoke"))
    typer.echo(json.dumps(answer.body) if asked.as_json else f"token {token_id} is revoked")


def _row(token: dict[str, Any]) -> tuple[str, ...]:
    meta = token.get("meta") or token
    return (
        text(token["id"]),
        text(token.get("name")),
        text(token.get("role")),
        times.state(token),
        text(meta.get("created")),
        text(meta.get("created_by")),
    )


reading(app, "create")(create)
reading(app, "list")(list_tokens)
reading(app, "revoke")(revoke)
