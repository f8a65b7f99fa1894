"""Runs the benchmarks, prints the table, writes the results: `python -m bench --help`."""

import argparse
import importlib
import sys
import time

from bench import machine, report
from bench.figure import Effort, Figure, Unavailable

IN_MEMORY_BENCHES = ("check_limit", "five_limits", "empty_call", "tail", "memory", "many_rules", "http_check")
STORE_BENCHES = (
    "store_calls",
    "store_async",
    "store_sync",
    "store_cpu",
    "store_memory",
    "store_cluster",
    "store_budget",
)
NODE_BENCHES = ("rls_cpu", "rls_ratelimit", "rls_gubernator", "socket_check", "identity", "node_memory", "gateway")
WEB_BENCHES = ("asgi_memory", "asgi_store", "flask_memory")
CONTROL_BENCHES = ("control_propagation", "control_burst", "control_start", "control_bulk")
BENCHES = IN_MEMORY_BENCHES + STORE_BENCHES + NODE_BENCHES + WEB_BENCHES + CONTROL_BENCHES


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Headgate's benchmarks, as ratios.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (all by default): {', '.join(BENCHES)}")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument("--quick", action="store_true", help="prove that they work; the numbers mean nothing")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md from this run")
    parser.add_argument("--docs-only", action="store_true", help="write docs/benchmarks.md from the last run")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(BENCHES))
    if unknown:
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    return arguments


def _run(names: list[str], effort: Effort) -> tuple[list[Figure], dict[str, str]]:
    """The figures, and why some benchmarks have none."""
    figures: list[Figure] = []
    left_out: dict[str, str] = {}
    print(report.heading(), flush=True)
    for name in names:
        try:
            measured = importlib.import_module(f"bench.{name}").run(effort)
        except Unavailable as reason:
            left_out[name] = str(reason)
            print(f"{name}: left out: {reason}", flush=True)
            continue
        for figure in measured:
            figures.append(figure)
            print(report.row(figure), flush=True)
    return figures, left_out


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(BENCHES))
        return 0
    if arguments.docs_only:
        print(f"wrote {report.write_page()}")
        return 0
    described = machine.describe()
    start, others = time.monotonic(), machine.OtherWork()
    names = arguments.names or list(BENCHES)
    figures, left_out = _run(names, Effort(arguments.quick))
    described["other work meanwhile"] = f"{machine.warn_of_others(others):.0%} of a core"
    partial = set(names) != set(BENCHES)
    seconds = time.monotonic() - start
    results = report.write_results(figures, left_out, described, seconds, arguments.quick, partial)
    print(f"wrote {results}")
    if arguments.write_docs and (partial or arguments.quick):
        print("docs/benchmarks.md is left as it is: only a full run may change it")
    elif arguments.write_docs:
        print(f"wrote {report.write_page()}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ValueError) as error:
        sys.exit(f"bench: {error}")
