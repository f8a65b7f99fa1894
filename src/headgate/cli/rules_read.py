"""`headgate rules list|show|history|diff|export`: asking, and changing nothing."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from headgate.cli import plan
from headgate.cli.asking import Asked
from headgate.cli.control_client import ANSWER_BYTES_MAX, path_of
from headgate.cli.control_errors import ControlRefused
from headgate.cli.errors import EXIT_REFUSED
from headgate.cli.replacing import replacing
from headgate.cli.rules_source import bulk_file, check_rules_name, read_sources
from headgate.cli.shown import LIMIT_DEFAULT, LIMIT_MAX, joined, limit_text, match_text, show_entry, show_list, text
from headgate.errors import ConfigError
from headgate.model.document import BULK_SUFFIX

EXPORT_TIMEOUT_S = 300.0
SWITCHES_MAX = 1_000
ALL = "*"

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The rule's name")]
LimitOption = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=LIMIT_MAX, help=f"So many at most (default {LIMIT_DEFAULT})")
]
FilesOption = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="FILE|DIR", help="Rules as files; may be given several times"),
]


def list_rules(
    asked: Asked,
    *,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="In the name and the description")
    ] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME", help="That match this tier")] = None,
    endpoint: Annotated[str | None, typer.Option("--endpoint", metavar="PATTERN")] = None,
    method: Annotated[str | None, typer.Option("--method", metavar="WORD")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    ip: Annotated[str | None, typer.Option("--ip", metavar="RANGE", help="As it is written in the rule")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="NAME")] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="WORD", help="throttle, block, allow, shadow")
    ] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Only those")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
) -> None:
    """Show the rules of the control plane.

    \b
    Example:
      headgate rules list --tier free
    """
    query = {
        "q": search,
        "tier": tier,
        "endpoint": endpoint,
        "method": method,
        "user": user,
        "org": org,
        "ip": ip,
        "group": group,
        "action": action,
        "enabled": enabled,
    }
    shadowed = set() if asked.as_json else _shadowed(asked)
    if ALL in shadowed:
        typer.echo("every rule is in shadow: nothing is refused until `headgate rules enforce --all`", err=True)
    headings = ("name", "state", "match", "by", "limit", "priority", "version")
    show_list(asked, "/rules", headings, lambda rule: _row(rule, shadowed), limit=limit, query=query)


def show(asked: Asked, name: NameArgument) -> None:
    """Show one rule as it would be written into a file.

    \b
    Example:
      headgate rules show free-login
    """
    show_entry(asked, asked.control.get(path_of("rules", name)).body)


def history(asked: Asked, name: NameArgument, *, limit: LimitOption = LIMIT_DEFAULT) -> None:
    """Show what a rule was, version by version: who changed it, when, and why.

    \b
    Example:
      headgate rules history free-login
    """
    items, more = asked.control.pages(path_of("rules", name, verb="history"), limit=limit)
    if not items:
        raise ConfigError(f"{name}: no rule was ever called that; `headgate rules list` shows those there are")
    if asked.as_json:
        typer.echo(json.dumps(items, indent=2))
    else:
        for item in items:
            why = f": {item['why']}" if item.get("why") else ""
            typer.echo(f"version {item['version']}, {text(item.get('at'))} by {text(item.get('who'))}{why}")
            for line in plan.change_lines({"kind": "rule", "id": name, **item}):
                typer.echo(f"  {line}")
    if more:
        typer.echo(f"these are the last {len(items):,}; there are more: --limit N", err=True)


def diff(
    asked: Asked,
    since: Annotated[
        int | None, typer.Argument(metavar="[FROM]", help="A version; the one before TO unless given")
    ] = None,
    to: Annotated[int | None, typer.Argument(metavar="[TO]", help="A version; the newest unless given")] = None,
    *,
    files: FilesOption = None,
    prune: Annotated[bool, typer.Option("--prune", help="With -f: what is in no file counts as deleted")] = False,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if there is a difference")] = False,
) -> None:
    """Show what changed between two versions, or what `rules apply` of these files would change.

    \b
    Example:
      headgate rules diff 12 15
      headgate rules diff -f rules/ --prune --exit-code
    """
    if files and (since is not None or to is not None):
        raise ConfigError("-f compares files with the control plane: give either files or versions")
    if files:
        if bulk_file(files) is not None:
            raise ConfigError(f"{files[0]}: a bulk file is compared by `headgate rules apply -f {files[0]} --dry-run`")
        source = read_sources(files)
        try:
            query = {"dry_run": True, "prune": prune}
            body = asked.control.send("POST", "/apply", source.body, query=query).body
        except ControlRefused as error:
            raise source.located(error) from None
    else:
        head = to if to is not None else _newest(asked)
        body = asked.control.get("/diff", {"from": max(0, head - 1) if since is None else since, "to": head}).body
    found = plan.tell(body, as_json=asked.as_json)
    if body.get("more"):
        typer.echo("there are more differences than are shown", err=True)
    if exit_code and found.any:
        raise typer.Exit(EXIT_REFUSED)


def export(
    asked: Asked,
    *,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="*.yaml, *.json or *.jsonl; else printed")
    ] = None,
) -> None:
    """Write rules, tiers and overrides as a file that applies back to no change: YAML, JSON, or, for rules in bulk,
    JSON Lines. Keys, blocks and tokens are not part of it: see `headgate backup`.

    \b
    Example:
      headgate rules export -o rules.yaml
    """
    from headgate.cli.yaml_text import document_text

    if output is not None:
        check_rules_name(output)
    if output is not None and output.endswith(BULK_SUFFIX):
        chunks = asked.control.download("/export", {"format": "ndjson"}, timeout_s=EXPORT_TIMEOUT_S)
    else:
        is_json = asked.as_json if output is None else output.endswith(".json")
        chunks = iter([document_text(_document(asked), is_json=is_json).encode()])
    if output is None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
        return
    with replacing(output) as file:
        size = sum(file.write(chunk) for chunk in chunks)
    if asked.as_json:
        typer.echo(json.dumps({"file": output, "bytes": size}))
    else:
        typer.echo(f"{output}: {size:,} bytes", err=True)


def _document(asked: Asked) -> dict[str, Any]:
    raw = bytearray()
    for chunk in asked.control.download("/export", {"format": "json"}, timeout_s=EXPORT_TIMEOUT_S):
        raw += chunk
        if len(raw) > ANSWER_BYTES_MAX:
            raise ConfigError(f"more than {ANSWER_BYTES_MAX // 2**20} MiB of rules; write them with -o rules.jsonl")
    told: dict[str, Any] = json.loads(raw)
    # Files name tiers by their names alone; an empty list of them would be a mistake.
    tiers = [tier["name"] for tier in told.get("tiers") or []]
    overrides = told.get("overrides") or []
    document = {"tiers": tiers, "rules": told.get("rules") or [], "overrides": overrides}
    return {name: entries for name, entries in document.items() if entries or name == "rules"}


def _newest(asked: Asked) -> int:
    versions, _ = asked.control.pages("/versions", limit=1)
    return int(versions[0]["version"]) if versions else 0


def _shadowed(asked: Asked) -> set[str]:
    return {str(switch["id"]) for switch in asked.control.pages("/switches", limit=SWITCHES_MAX)[0]}


def _row(rule: dict[str, Any], shadowed: set[str]) -> tuple[str, ...]:
    if rule.get("enabled") is False:
        state = "disabled"
    elif rule["name"] in shadowed or ALL in shadowed:
        state = "shadow (switch)"
    else:
        state = text(rule.get("action")) or "throttle"
    return (
        text(rule["name"]),
        state,
        match_text(rule.get("match")),
        joined(rule.get("by")),
        limit_text(rule.get("limit")),
        text(rule.get("priority", 100)),
        text((rule.get("meta") or {}).get("version")),
    )
