"""`headgate bench bulk-apply` and `page`: very many rules into a control plane at once, and a look at a few of them."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headgate.benchmarks.children import BenchError, child, headgate, memory_mb
from headgate.benchmarks.plane import Api, Plane, control_plane
from headgate.benchmarks.propagation import Progress
from headgate.benchmarks.rule_sets import write_lines
from headgate.benchmarks.spread import quantile

APPLY_S_MAX = 3600.0
FEW_RULES = 1_000
PAGE = 100
ROUNDS = 7
# Of each kind a round; with the API's own limit of 600 reads a minute, all rounds stay below it.
CALLS_A_ROUND = 10


def bulk_apply(rules: int, database: str | None, *, quiet: bool = True) -> dict[str, Any]:
    """`headgate rules apply` of so many rules as JSON Lines, through the API. Its bar is shown unless `quiet`."""
    with loaded(rules, database, quiet=quiet) as (_, found):
        return found


@contextlib.contextmanager
def loaded(rules: int, database: str | None, *, quiet: bool = True) -> Iterator[tuple[Plane, dict[str, Any]]]:
    """A control plane with so many rules, and how they got there."""
    with tempfile.TemporaryDirectory(prefix="hg-bench-") as name:
        folder = Path(name)
        lines = folder / "rules.jsonl"
        size = write_lines(lines, rules)
        with control_plane(folder, database=database) as plane:
            idle_mb = memory_mb(plane.pid)
            start_s = time.monotonic()
            applied = _apply(plane, folder, lines, quiet)
            seconds = time.monotonic() - start_s
            if applied.get("created") != rules:
                raise BenchError(f"{applied.get('created')} rules were created, not {rules}")
            lines.unlink()
            yield (
                plane,
                {
                    "rules": rules,
                    "database": "sqlite" if database is None else database.partition(":")[0],
                    "seconds": round(seconds, 1),
                    "rules_per_s": round(rules / seconds),
                    "file_mb": round(size / 1e6, 1),
                    "control_peak_mb": memory_mb(plane.pid),
                    "control_idle_mb": idle_mb,
                },
            )


def _apply(plane: Plane, folder: Path, lines: Path, quiet: bool) -> dict[str, Any]:
    command = headgate("rules", "apply", "-f", str(lines), "--yes", "--control", plane.url)
    command += ["--json"] if quiet else []
    environment = {**os.environ, "HEADGATE_TOKEN": plane.token}
    log = folder / "apply.log"
    shown: dict[str, Any] = {} if quiet else {"stderr": None}
    with child(command, log, env=environment, cwd=folder, stdout=subprocess.PIPE, **shown) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        if process.wait(APPLY_S_MAX) != 0:
            words = log.read_text(errors="replace")[-2000:]
            raise BenchError(f"`headgate rules apply` ended with status {process.returncode}: {words}")
    if quiet:
        found: dict[str, Any] = json.loads(said)
        return found
    with contextlib.closing(Api(plane)) as api:
        newest = json.loads(api.call("GET", "/api/v1/versions?limit=1").body)["items"][0]
    return {"created": newest["changes"]}


def page(
    rules: int,
    database: str | None,
    small_database: str | None,
    progress: Progress = lambda _: None,
    *,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """A page of 100 rules among very many, beside the same among few, by turns."""
    with loaded(rules, database) as (large, _), loaded(FEW_RULES, small_database) as (small, __):
        return pages(large, rules, small, progress, rounds=rounds)


def pages(
    large: Plane, rules: int, small: Plane, progress: Progress = lambda _: None, *, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Each kind of page of both planes. The figure is the worst ratio of the medians."""
    with contextlib.closing(Api(large)) as many, contextlib.closing(Api(small)) as few:
        wanted = {"first": "", "middle": None, "filtered": "&tier=pro"}
        queries = {
            api: {kind: query if query is not None else _middle(api) for kind, query in wanted.items()}
            for api in (many, few)
        }
        times_ms: dict[tuple[str, Api], list[float]] = {(kind, api): [] for kind in wanted for api in (many, few)}
        for number in range(rounds):
            for _ in range(CALLS_A_ROUND):
                # Whoever comes first in one round comes last in the next.
                for kind, api in list(times_ms)[:: 1 if number % 2 else -1]:
                    times_ms[kind, api].append(_look(api, queries[api][kind]))
            progress(number + 1)
        found: dict[str, Any] = {"rules": rules, "few_rules": FEW_RULES, "page": PAGE}
        ratios = []
        for kind in wanted:
            medians = [statistics.median(times_ms[kind, api]) for api in (many, few)]
            ratios.append(medians[0] / medians[1])
            found |= {
                f"{kind}_ms": round(medians[0], 2),
                f"{kind}_few_ms": round(medians[1], 2),
                f"{kind}_p99_ms": round(quantile(times_ms[kind, many], 0.99), 2),
                f"{kind}_ratio": round(ratios[-1], 2),
            }
        return {"ratio": round(max(ratios), 2), **found}


def _look(api: Api, query: str) -> float:
    start_ns = time.monotonic_ns()
    answer = api.call("GET", f"/api/v1/rules?limit={PAGE}{query}")
    took_ms = (time.monotonic_ns() - start_ns) / 1e6
    items = json.loads(answer.body).get("items") if answer.status == 200 else None
    if not items or len(items) != PAGE:
        raise BenchError(f"GET /rules answered {answer.status} with {len(items or ())} rules, not {PAGE}")
    return took_ms


def _middle(api: Api) -> str:
    """The page after a few others, as somebody comes to it who reads on."""
    cursor = ""
    for _ in range(3):
        answer = json.loads(api.call("GET", f"/api/v1/rules?limit={PAGE}{cursor}").body)
        cursor = f"&cursor={answer['next']}"
    return cursor
