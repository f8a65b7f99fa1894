"""`headgate bench`."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from headgate.cli.errors import needs_control, reported
from headgate.cli.progress import counted
from headgate.errors import ConfigError

app = typer.Typer(
    help="Measure how fast a control plane is, on this machine.", no_args_is_help=True, rich_markup_mode=None
)

NodesOption = Annotated[int, typer.Option("--nodes", metavar="N", min=1, max=2000, help="Nodes that follow")]
BrokerOption = Annotated[
    str | None,
    typer.Option("--broker", metavar="URL", help="redis://HOST:PORT; without it one is started for the time"),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help="An empty database; without it SQLite in a temporary folder"),
]
RulesOption = Annotated[int, typer.Option("--rules", metavar="N", min=1000, max=5_000_000, help="How many")]
FeedOption = Annotated[
    Literal["redis", "http"] | None,
    typer.Option("--feed", help="How nodes are told; without it by a broker, and over HTTP where there is none"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines")]


@app.command("propagation")
def propagation(
    nodes: NodesOption = 100,
    changes: Annotated[int, typer.Option("--changes", metavar="N", min=1, max=100_000, help="One at a time")] = 100,
    feed: FeedOption = None,
    broker: BrokerOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """From a change sent to the control plane to its enforcement at the last of many nodes, one change at a time.

    \b
    Example:
      headgate bench propagation --nodes 100 --changes 100 --json
    """
    with _measuring():
        from headgate.benchmarks.propagation import Fleet, propagation

        with counted("changes", changes, quiet=as_json) as progress:
            found = propagation(Fleet(nodes, feed or _feed(broker), broker, database), changes, progress)
        _tell(found, as_json)


@app.command("burst")
def burst(
    nodes: NodesOption = 100,
    changes: Annotated[int, typer.Option("--changes", metavar="N", min=100, max=10_000_000, help="In all")] = 100_000,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", min=1, max=3600, help="In this time")] = 60.0,
    feed: FeedOption = None,
    broker: BrokerOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """What an emergency block every second, the nodes and their checks make of very many changes, 100 to a request.

    \b
    Example:
      headgate bench burst --nodes 100 --changes 100000 --seconds 60 --json
    """
    with _measuring():
        from headgate.benchmarks.burst import Load, burst
        from headgate.benchmarks.propagation import Fleet

        with counted("changes", changes, quiet=as_json) as progress:
            found = burst(Fleet(nodes, feed or _feed(broker), broker, database), Load(changes, seconds), progress)
        _tell(found, as_json)


@app.command("cold-start")
def cold_start(
    rules: RulesOption = 1_000_000,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, max=100, help="Starts")] = 3,
    as_json: JsonOption = False,
) -> None:
    """From the start of a node to ready, with its rules in a snapshot on disk and everything else away.

    \b
    Example:
      headgate bench cold-start --rules 1000000 --json
    """
    with _measuring():
        from headgate.benchmarks.cold_start import cold_start

        with counted("starts", rounds, quiet=as_json) as progress:
            found = cold_start(rules, rounds, progress)
        _tell(found, as_json)


@app.command("bulk-apply")
def bulk_apply(rules: RulesOption = 1_000_000, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """`headgate rules apply` of very many rules: seconds, and the memory of the control plane.

    \b
    Example:
      headgate bench bulk-apply --rules 1000000 --database postgresql://headgate@127.0.0.1/empty
    """
    with _measuring():
        from headgate.benchmarks.bulk import bulk_apply

        _tell(bulk_apply(rules, database, quiet=as_json), as_json)


@app.command("page")
def page(
    rules: RulesOption = 1_000_000,
    database: DatabaseOption = None,
    small_database: Annotated[
        str | None, typer.Option("--small-database", metavar="URL", help="Another empty one, for the 1,000 rules")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """A page of 100 rules among very many, beside the same among 1,000.

    \b
    Example:
      headgate bench page --rules 1000000 --json
    """
    with _measuring():
        if (database is None) != (small_database is None):
            raise ConfigError("--database and --small-database go together: two empty databases of one kind")
        from headgate.benchmarks.bulk import ROUNDS, page

        with counted("rounds", ROUNDS, quiet=as_json) as progress:
            found = page(rules, database, small_database, progress)
        _tell(found, as_json)


def _feed(broker: str | None) -> str:
    """A broker, if there is one to be had; what was measured is told with the figures."""
    from headgate.benchmarks.broker import program
    from headgate.benchmarks.children import BenchError

    if broker is not None:
        return "redis"
    try:
        program()
    except BenchError as error:
        typer.echo(f"{error}. Measuring without: nodes ask the control plane over HTTP", err=True)
        return "http"
    return "redis"


@contextlib.contextmanager
def _measuring() -> Iterator[None]:
    """Whatever ends us, what was started for the measurement ends too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with reported(), needs_control():
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from headgate.cli.output import console, table

    rows = [
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
        for name, value in found.items()
    ]
    console().print(table(("figure", ""), rows))
