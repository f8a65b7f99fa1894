"""Runs the comparison, prints what it finds, writes the section of docs/benchmarks.md and its plot."""

import argparse
import json
import sys
import time
from contextlib import ExitStack
from typing import Any

from bench import machine, report
from bench.figure import Effort
from bench.processes import OUT
from bench.side_by_side import plot, table
from bench.side_by_side.groups import GROUPS, Group
from bench.side_by_side.measure import measured
from bench.side_by_side.table import Part
from tests.servers.server import Server

RESULTS = OUT / "peers.json"
EXAMPLE = "example: python -m bench.side_by_side --quick libraries gateways"


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description=__doc__, epilog=EXAMPLE)
    names = [group.name for group in GROUPS]
    parser.add_argument("names", nargs="*", metavar="GROUP", help=f"which to run (all by default): {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="prove that it works; the numbers mean nothing")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md from this run")
    parser.add_argument("--docs-only", action="store_true", help="write docs/benchmarks.md from the last full run")
    arguments = parser.parse_args(words)
    unknown = sorted(set(arguments.names) - set(names))
    if unknown:
        parser.error(f"no group named {', '.join(unknown)}; there are {', '.join(names)}")
    return arguments


def run_group(group: Group, effort: Effort) -> Part:
    """With a store of its own, empty at the start, whether or not its contestants need one."""
    left_out: dict[str, str] = {}
    with Server() as store, ExitStack() as closing:
        contestants = list(group.made(store, closing, left_out))
        rows = measured(contestants, effort, store)
    return Part(group.title, group.about, rows, left_out)


def write_docs(results: dict[str, Any]) -> None:
    parts = table.from_json(results["parts"])
    section = table.section(parts, results["seconds"], results["machine"])
    report.replace_section(report.PEERS, section)
    print(f"wrote {report.PAGE}\nwrote {plot.write(parts, table.digest(section))}")


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    if arguments.docs_only:
        if not RESULTS.exists():
            raise ValueError("there are no results yet: run `make bench-peers` first")
        write_docs(json.loads(RESULTS.read_text()))
        return 0
    described, others = machine.describe(), machine.OtherWork()
    start, effort, parts = time.monotonic(), Effort(arguments.quick), []
    for group in GROUPS:
        if not arguments.names or group.name in arguments.names:
            parts.append(run_group(group, effort))
            print(table.tables(parts[-1:]), end="\n\n", flush=True)
    machine.warn_of_others(others)
    seconds = time.monotonic() - start
    print(f"took {seconds:.0f} s")
    if arguments.quick or arguments.names:
        print("docs/benchmarks.md is left as it is: only a full run may change it")
        return 0
    where = f"{described['CPU']}, {described['cores']} cores, {described['kernel']}, {described['Python']}"
    results = {"parts": table.as_json(parts), "seconds": seconds, "machine": where}
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    print(f"wrote {RESULTS}")
    if arguments.write_docs:
        write_docs(results)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ValueError) as error:
        sys.exit(f"bench: {error}")
