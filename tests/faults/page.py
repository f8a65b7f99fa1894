"""Writes docs/faults.md from the last run of these tests: `python -m tests.faults.page`, `--run` to run them first."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.faults.conftest import ROWS
from tests.faults.measure import Row
from tests.servers.binaries import valkey
from tests.web.beside_peers import OUT as PEERS
from tests.web.beside_peers import Beside

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
PAGE = PROJECT / "docs" / "faults.md"
TEMPLATE = HERE / "page.md"
THEMES = ("one_server", "network", "failover", "policies", "flood")
VERSION_TIMEOUT_S = 10


def _ms(value_ms: float | None) -> str:
    return "—" if value_ms is None else f"{value_ms:+.2f}"


def _added(row: Row) -> str:
    if row.during_p50_ms is None or row.during_p99_ms is None:
        return "—"
    if row.before_p50_ms is None or row.before_p99_ms is None:
        return f"took {row.during_p50_ms:.2f} / {row.during_p99_ms:.2f} ms"
    return f"{_ms(row.during_p50_ms - row.before_p50_ms)} / {_ms(row.during_p99_ms - row.before_p99_ms)} ms"


def _answered(row: Row) -> str:
    answered = f"all {row.asked:,}" if row.answered == row.asked else f"{row.answered:,} of {row.asked:,}"
    return f"{answered}; {row.by_policy / row.asked:.0%} by the policy"


def table(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: THEMES.index(row.theme))
    lines = [
        "| what was done | added p50 / p99 | answered | over- and under-admission | recovery |",
        "|---|---:|---|---|---|",
    ]
    lines += [
        f"| {row.fault} | {_added(row)} | {_answered(row)} | {row.admission} | {row.recovery} |" for row in ordered
    ]
    return "\n".join(lines)


def peers_table(rows: Sequence[Beside]) -> str:
    lines = ["| what was done | beside | it | Headgate |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.peer} | {row.theirs} | {row.ours} |" for row in rows]
    return "\n".join(lines)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def machine() -> str:
    said = subprocess.run(
        [valkey(), "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=True
    )
    described = {
        "CPU": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "headgate": version("headgate"),
        "server": " ".join(said.stdout.split()[:3]),
    }
    return "\n".join(f"- {name}: {value}" for name, value in described.items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.page", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the tests and the peers first (about three minutes)")
    if parser.parse_args().run:
        subprocess.run([sys.executable, "-m", "pytest", "-q", str(HERE)], cwd=PROJECT, check=False)
        subprocess.run([sys.executable, "-m", "tests.web.beside_peers"], cwd=PROJECT, check=True)
    if not PEERS.exists():
        print("nothing of the peers yet: run `python -m tests.web.beside_peers`", file=sys.stderr)
        return 1
    peers = [Beside(**row) for row in json.loads(PEERS.read_text())]
    said = json.loads(ROWS.read_text())
    rows = [Row(**row) for row in said["rows"]]
    missing = set(THEMES) - {row.theme for row in rows}
    if missing:
        print(f"the last run was a part of the tests only: nothing of {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    page = TEMPLATE.read_text()
    for hole, text in (("table", table(rows)), ("peers", peers_table(peers)), ("machine", machine())):
        page = page.replace(f"{{{{{hole}}}}}", text)
    PAGE.write_text(page)
    print(f"wrote {PAGE.relative_to(PROJECT)}: {len(rows)} rows")
    if said["failed"]:
        print(f"{said['failed']} tests failed; what they would have measured is not in it", file=sys.stderr)
    return 1 if said["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
