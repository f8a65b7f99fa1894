"""`headgate check`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headgate.cli.errors import EXIT_REFUSED, EXIT_USAGE, reported
from headgate.errors import ConfigError
from headgate.settings import read_settings

REPEAT_MAX = 10_000


def check(
    rules: Annotated[str | None, typer.Option("--rules", metavar="FILE", help="Rules file [HEADGATE_RULES]")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME")] = None,
    path: Annotated[str | None, typer.Option("--path", metavar="PATH", help="As in /api/v1/login")] = None,
    method: Annotated[str | None, typer.Option("--method", metavar="WORD", help="As in POST")] = None,
    ip: Annotated[str | None, typer.Option("--ip", metavar="ADDRESS")] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="ID")] = None,
    api_key: Annotated[str | None, typer.Option("--api-key", metavar="ID", help="Its id, not its value")] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME")] = None,
    descriptor: Annotated[
        list[str] | None, typer.Option("--descriptor", metavar="KEY=VALUE", help="May be given several times")
    ] = None,
    cost: Annotated[int, typer.Option("--cost", metavar="N")] = 1,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=REPEAT_MAX, help="Check so many times in a row")
    ] = 1,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Settings file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines")] = False,
) -> None:
    """Show what would be decided about a request and why, from fresh counters.
    Exit code 0: allowed. 1: refused. 2: a mistake in the rules or the flags.

    \b
    Example:
      headgate check --rules rules.yaml --user 42 --tier free --path /api/v1/login --method POST --repeat 6
    """
    facts: dict[str, Any] = {
        "user": user,
        "tier": tier,
        "path": path,
        "method": method,
        "ip": ip,
        "org": org,
        "api_key": api_key,
        "region": region,
    }
    facts = {name: value for name, value in facts.items() if value is not None} | {"cost": cost}
    with reported():
        if descriptor:
            facts["descriptors"] = _descriptors(descriptor)
        explanation, decisions = _decide(rules, config, facts, repeat)
    if as_json:
        answers = [json.loads(decision.to_json()) for decision in decisions]
        typer.echo(json.dumps({**explanation, "decision": answers[-1], "checks": answers}, indent=2))
    else:
        from headgate.cli.show_check import show

        show(explanation, decisions)
    if not decisions[-1].allowed:
        raise typer.Exit(EXIT_REFUSED)


def _decide(
    rules: str | None, config: str | None, facts: dict[str, Any], repeat: int
) -> tuple[dict[str, Any], list[Any]]:
    from headgate.limiter import Limiter
    from headgate.upkeep.rules_file import STARTER_FILE

    settings = read_settings({"rules": rules}, config=config)
    if settings.rules is None:
        typer.echo(f"no rules were given (--rules FILE); using the starter rules, {STARTER_FILE}", err=True)
    limiter = Limiter(
        settings.rules or STARTER_FILE,
        region=settings.region,
        no_rule=settings.no_rule,
        ipv6_prefix=settings.ipv6_prefix,
    )
    try:
        explanation: dict[str, Any] = json.loads(limiter.explain(**facts))
        return explanation, [limiter.check(**facts) for _ in range(repeat)]
    except ValueError as error:
        typer.echo(f"headgate check: {error}", err=True)
        raise typer.Exit(EXIT_USAGE) from None


def _descriptors(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"--descriptor {pair}: expected KEY=VALUE, such as plan=trial")
        if key in found:
            raise ConfigError(f"--descriptor {pair}: {key} was given twice")
        found[key] = value
    return found
