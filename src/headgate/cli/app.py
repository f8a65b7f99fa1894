"""All verbs in one place. Verbs import what they show things with when they run, so that `--help` stays quick."""

from __future__ import annotations

import typer

from headgate.cli import (
    backup,
    bench,
    blocks,
    calls,
    check,
    control,
    doctor,
    fleet,
    keys,
    node,
    overrides,
    rules,
    serve,
    settings,
    status,
    tiers,
    tokens,
    version,
    versions,
)

# Plain help: examples keep their lines, and nothing in a description is taken for markup.
app = typer.Typer(
    name="headgate",
    help="Headgate decides, for every request to an API, whether it may pass.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
)

app.command("serve")(serve.serve)
app.command("node")(node.node)
app.command("control")(control.control)
app.command("check")(check.check)
app.add_typer(rules.app, name="rules")
app.add_typer(tiers.app, name="tiers")
app.add_typer(overrides.app, name="overrides")
app.add_typer(blocks.app, name="blocks")
app.add_typer(keys.app, name="keys")
app.add_typer(versions.app, name="versions")
app.command("fleet")(fleet.fleet)
app.add_typer(tokens.app, name="tokens")
app.command("calls")(calls.calls)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(bench.app, name="bench")
app.command("status")(status.status)
app.command("doctor")(doctor.doctor)
app.command("settings")(settings.settings)
app.command("version")(version.version)


def main() -> None:
    app()
