"""`headgate rules …`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headgate.cli import rules_apply, rules_change, rules_import, rules_read
from headgate.cli.asking import WaitingCommand, changing, reading
from headgate.cli.errors import EXIT_USAGE
from headgate.model import find_mistakes, schema_text

app = typer.Typer(help="Rules, of a control plane and as files.", no_args_is_help=True, rich_markup_mode=None)

reading(app, "list")(rules_read.list_rules)
reading(app, "show")(rules_read.show)
changing(app, "apply")(rules_apply.apply)
app.command("import", cls=WaitingCommand)(rules_import.import_rules)
reading(app, "export")(rules_read.export)
reading(app, "diff")(rules_read.diff)
reading(app, "history")(rules_read.history)
changing(app, "rollback")(rules_change.rollback)
changing(app, "delete")(rules_change.delete)
changing(app, "enable")(rules_change.enable)
changing(app, "disable")(rules_change.disable)
changing(app, "shadow")(rules_change.shadow)
changing(app, "enforce")(rules_change.enforce)


@app.command("validate")
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML, JSON or JSON Lines (*.jsonl)")],
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """Explain every mistake in rules files: file, line, column, and what was expected. Exit code 2 if there is any.

    \b
    Example:
      headgate rules validate rules.yaml
    """
    reports: list[dict[str, Any]] = []
    valid = True
    for file in files:
        count, mistakes = find_mistakes(file)
        valid = valid and not mistakes
        if as_json:
            found = [mistake.as_dict() for mistake in mistakes]
            reports.append({"file": file, "valid": not mistakes, "rules": count, "mistakes": found})
            continue
        for mistake in mistakes:
            typer.echo(str(mistake))
        if not mistakes:
            typer.echo(f"{file}: {count} rule{'' if count == 1 else 's'}, no mistakes")
    if as_json:
        typer.echo(json.dumps({"valid": valid, "files": reports}, indent=2))
    if not valid:
        raise typer.Exit(EXIT_USAGE)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of rules files, for editors.

    \b
    Example:
      headgate rules schema > rules.schema.json
    """
    typer.echo(schema_text(), nl=False)
